# The recording without its noise. Also: audio/flac, audio/mpeg, audio/ogg
curl --fail-with-body -sS "$HARK_URL/v1/enhance-audio" \
    -H "Authorization: Bearer $HARK_KEY" \
    -H "Accept: audio/wav" \
    -F file=@"$1" \
    -o clean.wav
