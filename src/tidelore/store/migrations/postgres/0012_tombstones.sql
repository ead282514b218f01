-- A tombstone keeps identity and times. Until now it kept its words, its children and their payloads too.
CREATE TEMP TABLE buried_parents AS
SELECT 'issue' AS resource_type, id, project_id, remote_id FROM issues WHERE deleted_at IS NOT NULL
UNION ALL SELECT 'merge_request', id, project_id, remote_id FROM merge_requests WHERE deleted_at IS NOT NULL;
CREATE TEMP TABLE buried_threads AS
SELECT d.id, d.project_id, d.remote_id FROM discussions d JOIN buried_parents b
    ON (b.resource_type = 'issue' AND b.id = d.issue_id) OR (b.resource_type = 'merge_request' AND b.id = d.merge_request_id);
CREATE TEMP TABLE buried_payloads AS
SELECT resource_type, project_id, CAST(remote_id AS TEXT) AS remote_id FROM buried_parents
UNION ALL SELECT 'discussion', project_id, remote_id FROM buried_threads
UNION ALL SELECT 'note', n.project_id, CAST(n.remote_id AS TEXT) FROM notes n JOIN buried_threads t ON t.id = n.discussion_id;

DELETE FROM documents WHERE thread_type = 'issue'
    AND thread_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM documents WHERE thread_type = 'merge_request'
    AND thread_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM discussions WHERE id IN (SELECT id FROM buried_threads);
DELETE FROM resource_state_events WHERE issue_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM resource_label_events WHERE issue_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM resource_milestone_events WHERE issue_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM issue_labels WHERE issue_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM issue_assignees WHERE issue_id IN (SELECT id FROM buried_parents WHERE resource_type = 'issue');
DELETE FROM resource_state_events WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM resource_label_events WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM resource_milestone_events WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_closes_issues WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_file_changes WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_labels WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_assignees WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_reviewers WHERE merge_request_id IN (SELECT id FROM buried_parents WHERE resource_type = 'merge_request');
DELETE FROM mr_closes_issues WHERE EXISTS (
    SELECT 1 FROM issues i JOIN projects p ON p.id = i.project_id, merge_requests m JOIN projects q ON q.id = m.project_id
    WHERE i.deleted_at IS NOT NULL AND i.remote_id = mr_closes_issues.issue_remote_id
    AND m.id = mr_closes_issues.merge_request_id AND p.source = q.source
);

INSERT INTO raw_payloads (content_hash, project_id, resource_type, remote_id, encoding, payload, fetched_at)
SELECT '\x3345524abf6bbe1809449224b5972c41790b6cf2'::bytea, NULL, 'tombstone', '', 'identity', ''::bytea, MIN(deleted_at)
FROM (SELECT deleted_at FROM issues UNION ALL SELECT deleted_at FROM merge_requests) AS times
WHERE deleted_at IS NOT NULL HAVING COUNT(*) > 0;
UPDATE issues SET title = '', description = NULL, author_username = NULL, milestone_title = NULL, due_date = NULL,
    discussion_locked = 0, issue_type = NULL, user_notes_count = 0, time_estimate_seconds = 0, time_spent_seconds = 0,
    status_name = NULL, status_category = NULL, status_color = NULL, status_icon_name = NULL,
    status_synced_for_updated_at = updated_at, content_hash = '\x3345524abf6bbe1809449224b5972c41790b6cf2'::bytea,
    raw_payload_id = (SELECT id FROM raw_payloads WHERE remote_id = '' AND content_hash = '\x3345524abf6bbe1809449224b5972c41790b6cf2'::bytea),
    discussions_synced_for_updated_at = updated_at, discussions_fetched_for_updated_at = updated_at,
    discussions_sync_last_attempt_at = NULL, discussions_sync_attempts = 0, discussions_sync_last_error = NULL,
    resource_events_synced_for_updated_at = updated_at, resource_events_fetched_for_updated_at = updated_at,
    resource_events_sync_last_attempt_at = NULL, resource_events_sync_attempts = 0, resource_events_sync_last_error = NULL
WHERE deleted_at IS NOT NULL;
UPDATE merge_requests SET title = '', description = NULL, author_username = NULL, milestone_title = NULL, draft = 0,
    source_branch = NULL, target_branch = NULL, head_sha = NULL, detailed_merge_status = NULL,
    merge_user_username = NULL, user_notes_count = 0, content_hash = '\x3345524abf6bbe1809449224b5972c41790b6cf2'::bytea,
    raw_payload_id = (SELECT id FROM raw_payloads WHERE remote_id = '' AND content_hash = '\x3345524abf6bbe1809449224b5972c41790b6cf2'::bytea),
    discussions_synced_for_updated_at = updated_at, discussions_fetched_for_updated_at = updated_at,
    discussions_sync_last_attempt_at = NULL, discussions_sync_attempts = 0, discussions_sync_last_error = NULL,
    resource_events_synced_for_updated_at = updated_at, resource_events_fetched_for_updated_at = updated_at,
    resource_events_sync_last_attempt_at = NULL, resource_events_sync_attempts = 0, resource_events_sync_last_error = NULL,
    closes_issues_synced_for_updated_at = updated_at, closes_issues_fetched_for_updated_at = updated_at,
    closes_issues_sync_last_attempt_at = NULL, closes_issues_sync_attempts = 0, closes_issues_sync_last_error = NULL,
    diffs_synced_for_updated_at = updated_at, diffs_fetched_for_updated_at = updated_at,
    diffs_sync_last_attempt_at = NULL, diffs_sync_attempts = 0, diffs_sync_last_error = NULL,
    reviewers_synced_for_updated_at = updated_at, reviewers_fetched_for_updated_at = updated_at,
    reviewers_sync_last_attempt_at = NULL, reviewers_sync_attempts = 0, reviewers_sync_last_error = NULL
WHERE deleted_at IS NOT NULL;

DELETE FROM raw_payloads WHERE id IN (
    SELECT p.id FROM buried_payloads b JOIN raw_payloads p
        ON p.remote_id = b.remote_id AND p.resource_type = b.resource_type AND p.project_id = b.project_id
    WHERE NOT EXISTS (SELECT 1 FROM issues r WHERE r.raw_payload_id = p.id)
    AND NOT EXISTS (SELECT 1 FROM merge_requests r WHERE r.raw_payload_id = p.id)
    AND NOT EXISTS (SELECT 1 FROM discussions r WHERE r.raw_payload_id = p.id)
    AND NOT EXISTS (SELECT 1 FROM notes r WHERE r.raw_payload_id = p.id)
);
DROP TABLE buried_payloads;
DROP TABLE buried_threads;
DROP TABLE buried_parents;
