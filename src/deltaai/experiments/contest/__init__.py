"""Folders of UAI problems, answered under the rules of a contest and held against solutions."""
