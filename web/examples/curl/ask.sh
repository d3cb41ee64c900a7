# $1 is the number of a transcript. The answer comes sentence by sentence.
curl --fail-with-body -sS -N "$HARK_URL/v1/transcripts/$1/chat" \
    -H "Authorization: Bearer $HARK_KEY" \
    -H "Content-Type: application/json" \
    -d '{"question": "What are they going to buy?", "stream": true}'
