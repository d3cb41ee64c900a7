// What all kernels share. Compiled by NVRTC without headers.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define NEGATIVE_INFINITY __int_as_float(0xff800000)
// log2(e): exponentials are powers of two.
#define LOG2_E 1.4426950408889634f

__device__ __forceinline__ float from_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }

__device__ __forceinline__ u16 to_bf16(float value) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two numbers in one register, the first in the lower half.
__device__ __forceinline__ u32 pack_bf16(float first, float second) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

// Eight bf16 numbers of one 16-byte load.
__device__ __forceinline__ void unpack8(uint4 bits, float* numbers) {
    u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        numbers[2 * i] = __uint_as_float(words[i] << 16);
        numbers[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1) x += __shfl_xor_sync(~0u, x, lanes);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
    return x;
}

__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

// What the decoder does with one token (`device::StepEntry`).
struct Entry {
    u32 token;
    u32 position;
    // The row of the KV cache; no entry where it is NO_ENTRY.
    u32 row;
    // The window.
    u32 slot;
};
#define NO_ENTRY 0xffffffffu
