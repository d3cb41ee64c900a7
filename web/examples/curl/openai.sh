# The paths of OpenAI's API, on this server.
curl --fail-with-body -sS "$HARK_URL/v1/audio/transcriptions" \
    -H "Authorization: Bearer $HARK_KEY" \
    -F file=@"$1" \
    -F model=whisper-1 \
    -F response_format=text
