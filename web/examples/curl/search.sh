# Passages of all your transcripts in which something is said, best first.
curl --fail-with-body -sS --get "$HARK_URL/v1/search" \
    -H "Authorization: Bearer $HARK_KEY" \
    --data-urlencode "q=apples and bread" \
    -d limit=5
