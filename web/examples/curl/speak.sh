# A text, spoken. GET /v1/voices lists the voices.
curl --fail-with-body -sS "$HARK_URL/v1/audio/speech" \
    -H "Authorization: Bearer $HARK_KEY" \
    -H "Content-Type: application/json" \
    -d '{"model": "tts-1", "voice": "af_heart", "input": "Good morning.", "response_format": "wav"}' \
    -o speech.wav
