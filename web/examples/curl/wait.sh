# A long recording: the answer comes at once, the transcript when it is ready.
id=$(curl --fail-with-body -sS "$HARK_URL/v1/transcribe" \
    -H "Authorization: Bearer $HARK_KEY" \
    -H "Prefer: respond-async" \
    -F file=@"$1" | sed 's/.*"id":\([0-9]*\).*/\1/')

while :; do
    state=$(curl --fail-with-body -sS "$HARK_URL/v1/transcripts/$id/status")
    echo "$state"
    case $state in
        *'"status":"completed"'*) break ;;
        *'"status":"failed"'*) exit 1 ;;
    esac
    sleep 2
done

curl --fail-with-body -sS "$HARK_URL/v1/transcripts/$id/export/txt" \
    -H "Authorization: Bearer $HARK_KEY"
