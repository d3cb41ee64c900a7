# The words of a recording, with their times.
curl --fail-with-body -sS "$HARK_URL/v1/transcribe" \
    -H "Authorization: Bearer $HARK_KEY" \
    -F file=@"$1"
