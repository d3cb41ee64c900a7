#!/usr/bin/env python3
"""PESQ (wideband) and STOI behind the benchmark's line protocol.

A request names two files of 32-bit floats at 16 kHz: the reference and what is heard.
"""

import argparse

import protocol

RATE = 16_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="has no effect")
    parser.parse_args()

    def make(_):
        import numpy
        import pesq
        import pystoi

        def judge(request):
            reference, heard = (numpy.fromfile(request[name], dtype="<f4") for name in ("reference", "heard"))
            return {
                "pesq": float(pesq.pesq(RATE, reference, heard, "wb")),
                "stoi": float(pystoi.stoi(reference, heard, RATE)),
            }

        return judge

    protocol.serve(lambda: None, make, lambda: "pesq 0.0.4, pystoi 0.4.1")


if __name__ == "__main__":
    main()
