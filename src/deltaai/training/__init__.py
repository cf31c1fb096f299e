"""Training q: settings, schedules, the loop, its checkpoints and its log.

Every part is a file of its own and can be used alone; this page only names the folder, so that
reading settings does not load what trains.
"""
