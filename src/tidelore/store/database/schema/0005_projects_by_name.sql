-- Finds the row of a configured project, which every sync of a single project needs.
CREATE INDEX idx_projects_configured ON projects (configured);
