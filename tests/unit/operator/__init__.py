"""Pure tests of the operator's decisions."""
