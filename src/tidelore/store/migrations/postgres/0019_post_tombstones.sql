-- A deleted post keeps identity and times. Until now it kept its text and payload too, and so did the reposts of it.
CREATE TEMP TABLE emptied_posts AS
SELECT p.id, p.uri FROM posts p WHERE p.deleted_at IS NOT NULL
    OR p.subject_uri IN (SELECT o.uri FROM posts o WHERE o.deleted_at IS NOT NULL);

INSERT INTO raw_payloads (content_hash, project_id, resource_type, remote_id, encoding, payload, fetched_at)
SELECT '\xa22cbfd1a6f7d67d65014b57b47a96408c8f58b5'::bytea, NULL, 'post', p.uri, 'identity', '{}'::bytea, p.last_seen_at
FROM posts p WHERE p.id IN (SELECT id FROM emptied_posts)
ON CONFLICT (remote_id, content_hash) DO NOTHING;
UPDATE posts SET text = '', langs = '', alt_text = '', labels = '', tags = '',
    raw_payload_id = (SELECT r.id FROM raw_payloads r WHERE r.remote_id = posts.uri
        AND r.content_hash = '\xa22cbfd1a6f7d67d65014b57b47a96408c8f58b5'::bytea)
WHERE id IN (SELECT id FROM emptied_posts);
DELETE FROM raw_payloads WHERE resource_type = 'post' AND remote_id IN (SELECT uri FROM emptied_posts)
    AND content_hash <> '\xa22cbfd1a6f7d67d65014b57b47a96408c8f58b5'::bytea;
DELETE FROM post_links WHERE post_id IN (SELECT id FROM emptied_posts);
DROP TABLE emptied_posts;
