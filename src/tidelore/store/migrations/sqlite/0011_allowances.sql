-- Of how many requests that is what is left; NULL where a source does not say.
ALTER TABLE source_budgets ADD COLUMN allowed INTEGER;
