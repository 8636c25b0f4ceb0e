"""Records turned into tables, figures and pages. Reads plain JSON values and never loads torch."""
