"""Sets of human poses: files in, angles of joints out, scaled for a factor graph on the body."""
