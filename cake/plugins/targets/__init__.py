"""Targets, one file each, and the groups of them that primitives name: an instruction family is legal on one group."""

ALL = ("sm_80", "sm_90a", "sm_100a")
SINCE_HOPPER = ("sm_90a", "sm_100a")
HOPPER = ("sm_90a",)
