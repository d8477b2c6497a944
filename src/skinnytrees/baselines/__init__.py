"""Systems that select features, behind one interface: those that the Skinny Trees paper compares with, and common others."""
