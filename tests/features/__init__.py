"""docs/features.md is true: its tests exist, and a sample of rows fails when its feature is taken out."""
