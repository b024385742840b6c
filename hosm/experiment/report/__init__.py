"""The report: composes the tables, figures and claims of all studies into one page."""
