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

// Programmatic dependent launch, from sm_90 on: a kernel may begin while those before it still run. Every kernel waits for them before it
// touches what they read or write; only weights may be loaded earlier.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void take_turn() {
    let_next_begin();
    wait_for_previous();
}

// Products of 16 by 16 by 8 on tensor cores, from sm_80 on.
__device__ __forceinline__ void multiply_add(float* sums, const u32* a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Layer norm of a row of the residual stream by a warp, with the row in registers: widths up to 2048, multiples of 4. `store` gets a
// column and the four numbers from there on, as bf16. Returns whether all are finite.
template <typename Store>
__device__ __forceinline__ bool norm_row(const float* row, const float* gain, const float* bias, int width, Store store) {
    const int MOST = 16;
    int lane = threadIdx.x & 31;
    float4 numbers[MOST];
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column < width) {
            numbers[i] = *(const float4*)(row + column);
            sum += (numbers[i].x + numbers[i].y) + (numbers[i].z + numbers[i].w);
        }
    }
    float mean = warp_sum(sum) / width;
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column < width) {
            float x = numbers[i].x - mean, y = numbers[i].y - mean, z = numbers[i].z - mean, w = numbers[i].w - mean;
            squares += (x * x + y * y) + (z * z + w * w);
        }
    }
    float scale = rsqrtf(warp_sum(squares) / width + 1e-5f);
    bool finite = is_finite(scale) && is_finite(mean);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column < width) {
            float4 by = *(const float4*)(gain + column), add = *(const float4*)(bias + column);
            float x = (numbers[i].x - mean) * scale * by.x + add.x, y = (numbers[i].y - mean) * scale * by.y + add.y;
            float z = (numbers[i].z - mean) * scale * by.z + add.z, w = (numbers[i].w - mean) * scale * by.w + add.w;
            finite &= is_finite(x) && is_finite(y) && is_finite(z) && is_finite(w);
            store(column, make_uint2(pack_bf16(x, y), pack_bf16(z, w)));
        }
    }
    return finite;
}

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
