// The resampler is plain JavaScript in public/audio, where the AudioWorklet finds it; tests import it from there.
declare module "*/audio/resampler.js" {
  export const RATE: number;
  export class Resampler {
    constructor(from: number, to?: number);
    push(input: Float32Array): Float32Array;
    flush(): Float32Array;
  }
  export function toPcm(samples: Float32Array): Int16Array;
}
