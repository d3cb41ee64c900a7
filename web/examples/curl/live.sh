# curl speaks no WebSocket; websocat does. Instead of a file: -f pulse -i default
ffmpeg -v error -re -i "$1" -f s16le -ar 16000 -ac 1 - |
    websocat -b --no-close \
        -H "Authorization: Bearer $HARK_KEY" \
        "ws${HARK_URL#http}/v1/stream?language=en"
