# $1 is the number of a transcript. style: brief, detailed, executive, action_items, bullet_points
curl --fail-with-body -sS "$HARK_URL/v1/transcripts/$1/summarize" \
    -H "Authorization: Bearer $HARK_KEY" \
    -H "Content-Type: application/json" \
    -d '{"style": "bullet_points"}'
