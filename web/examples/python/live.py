# Words while they are spoken. pip install websockets
import asyncio, json, os, sys
from websockets.asyncio.client import connect

# A file as if it were a microphone; instead of it, for example: -f pulse -i default
FFMPEG = ["ffmpeg", "-v", "error", "-re", "-i", sys.argv[1], "-f", "s16le", "-ar", "16000", "-ac", "1", "-"]


async def send(socket):
    ffmpeg = await asyncio.create_subprocess_exec(*FFMPEG, stdout=asyncio.subprocess.PIPE)
    while sound := await ffmpeg.stdout.read(3200):
        await socket.send(sound)
    await socket.send(json.dumps({"action": "stop"}))


async def main():
    address = os.environ["HARK_URL"].replace("http", "ws", 1) + "/v1/stream"
    async with connect(address) as socket:
        await socket.send(json.dumps({"token": os.environ["HARK_KEY"], "language": "en"}))
        sending = asyncio.create_task(send(socket))
        async for message in socket:
            said = json.loads(message)
            if "error" in said:
                sys.exit(said["error"])
            if said.get("is_final"):
                break
            if "text" in said:
                print(said["text"], flush=True)
            elif "partial" in said:
                print("…", said["partial"], file=sys.stderr)
        await sending


asyncio.run(main())
