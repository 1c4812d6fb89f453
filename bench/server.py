"""A process that runs training steps, one for each line that it is sent."""
import json
import subprocess


class Server:
    """A process that answers each line with the figures of one step."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self, number, way):
        self.process.stdin.write(f"{number} {way}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
