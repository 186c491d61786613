"""A rule pack: Cake reads the files beside this one and never imports it."""
