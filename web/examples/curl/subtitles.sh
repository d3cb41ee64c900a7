# Tell the speakers apart, and take the stored transcript as subtitles.
# Other formats: txt, vtt, json, csv, docx, pdf.
id=$(curl --fail-with-body -sS "$HARK_URL/v1/transcribe" \
    -H "Authorization: Bearer $HARK_KEY" \
    -F file=@"$1" -F diarize=true \
    -o /dev/null -D - | tr -d '\r' | sed -n 's/^x-transcript-id: //ip')

curl --fail-with-body -sS "$HARK_URL/v1/transcripts/$id/export/srt" \
    -H "Authorization: Bearer $HARK_KEY"
