-- No statement looks rows up by these indexes: the labels of an item are found by the item, changes by their number. They
-- would only serve the deletion of a label or a project, and nothing deletes one. Issues without a status need no entry in
-- the index that finds issues by their status.
DROP INDEX idx_changes_project;
DROP INDEX idx_issue_labels_label;
DROP INDEX idx_mr_labels_label;
DROP INDEX idx_issues_status_name;
CREATE INDEX idx_issues_status_name ON issues (project_id, status_name) WHERE status_name IS NOT NULL;
