// Numbers in e4m3, for GPUs that have it: rows are quantized with a scale each, the largest number of a row to the largest of e4m3.

#define E4M3_MAX 448.f

__device__ __forceinline__ u16 pack_e4m3(float first, float second) {
    u16 bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(second), "f"(first));
    return bits;
}

__device__ __forceinline__ u32 pack_e4m3(const float* four, float factor) {
    return pack_e4m3(four[0] * factor, four[1] * factor) | (u32)pack_e4m3(four[2] * factor, four[3] * factor) << 16;
}

// Keys and values in e4m3: four lanes a frame.
struct Fp8Keys {
    typedef u8 Number;
    static const int EACH = 16;
    static __device__ __forceinline__ void unpack(uint4 bits, float* numbers) {
        u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u16 pair = (u16)(words[i >> 1] >> (16 * (i & 1)));
            u32 halves;
            asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
            asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
                : "=f"(numbers[2 * i]), "=f"(numbers[2 * i + 1])
                : "r"(halves));
        }
    }

    // Tensor cores get them as f16, which has every number of e4m3.
    typedef uint4 Key;
    typedef uint2 Value;
    static __device__ __forceinline__ Key load_key(const u8* from) { return __ldcs((const uint4*)from); }
    static __device__ __forceinline__ Value load_value(const u8* from) { return __ldcs((const uint2*)from); }
    static __device__ __forceinline__ u32 halves(u32 pair) {
        u32 bits;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"((u16)pair));
        return bits;
    }
    static __device__ __forceinline__ void key_pairs(const Key& key, u32* pairs) {
        u32 words[4] = {key.x, key.y, key.z, key.w};
#pragma unroll
        for (int i = 0; i < 8; i++) pairs[i] = halves(words[i >> 1] >> (16 * (i & 1)));
    }
    static __device__ __forceinline__ u32 value_pair(const Value& one, const Value& other, int number) {
        const u32 ones[2] = {one.x, one.y}, others[2] = {other.x, other.y};
        return halves(__byte_perm(ones[number >> 2], others[number >> 2], (number & 3) | (4 + (number & 3)) << 4));
    }
    static __device__ __forceinline__ u32 pack(float first, float second) {
        u32 bits;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
        return bits;
    }
    static __device__ __forceinline__ u32 query_pair(u32 bits) {
        return pack(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
    }
    static __device__ __forceinline__ void multiply(float* sums, const u32* a, u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

WINDOW_KERNELS(Fp8Keys, cross_attention_fp8, shared_cross_attention_fp8, head_scores_fp8)

__device__ __forceinline__ float largest_of(const float* numbers, int count) {
    float largest = 0.f;
#pragma unroll
    for (int i = 0; i < count; i++) largest = fmaxf(largest, fabsf(numbers[i]));
    return largest;
}

__device__ __forceinline__ float block_max(float mine) {
    __shared__ float warps[32];
    mine = warp_max(mine);
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = mine;
    __syncthreads();
    float all = warps[0];
    for (int i = 1; i < (int)(blockDim.x >> 5); i++) all = fmaxf(all, warps[i]);
    return all;
}

// What numbers are multiplied by so that the largest becomes the largest of e4m3; its inverse is stored.
__device__ __forceinline__ float factor_of(float largest, float* scale) {
    float factor = largest > 0.f ? E4M3_MAX / largest : 1.f;
    if (scale) *scale = largest > 0.f ? largest / E4M3_MAX : 1.f;
    return factor;
}

// Rows in bf16 to e4m3. A block of 128 threads a row; widths up to 8192, multiples of 8.
extern "C" __global__ void __launch_bounds__(128) quantize_rows(const u16* from, u8* to, float* scales, int width) {
    const int MOST = 8;
    take_turn();
    u64 row = blockIdx.x;
    uint4 bits[MOST];
    float largest = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 128 + threadIdx.x) * 8;
        if (column >= width) continue;
        float numbers[8];
        bits[i] = *(const uint4*)(from + row * width + column);
        unpack8(bits[i], numbers);
        largest = fmaxf(largest, largest_of(numbers, 8));
    }
    float factor = factor_of(block_max(largest), threadIdx.x == 0 ? scales + row : nullptr);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 128 + threadIdx.x) * 8;
        if (column >= width) continue;
        float numbers[8];
        unpack8(bits[i], numbers);
        *(uint2*)(to + row * width + column) = make_uint2(pack_e4m3(numbers, factor), pack_e4m3(numbers + 4, factor));
    }
}

// Layer norm of rows of the residual stream to e4m3, a warp a row; widths up to 2048, multiples of 4.
extern "C" __global__ void __launch_bounds__(128)
layer_norm_fp8(const float* stream, const float* gain, const float* bias, u8* to, float* scales, int rows, int width) {
    const int MOST = 16;
    take_turn();
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    float numbers[MOST][4], sum = 0.f, squares = 0.f, largest = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column >= width) continue;
        float4 four = *(const float4*)(stream + (u64)row * width + column);
        numbers[i][0] = four.x, numbers[i][1] = four.y, numbers[i][2] = four.z, numbers[i][3] = four.w;
        sum += (four.x + four.y) + (four.z + four.w);
    }
    float mean = warp_sum(sum) / width;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if ((i * 32 + lane) * 4 >= width) continue;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            numbers[i][k] -= mean;
            squares += numbers[i][k] * numbers[i][k];
        }
    }
    float scale = rsqrtf(warp_sum(squares) / width + 1e-5f);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column >= width) continue;
        float4 by = *(const float4*)(gain + column), add = *(const float4*)(bias + column);
        numbers[i][0] = numbers[i][0] * scale * by.x + add.x;
        numbers[i][1] = numbers[i][1] * scale * by.y + add.y;
        numbers[i][2] = numbers[i][2] * scale * by.z + add.z;
        numbers[i][3] = numbers[i][3] * scale * by.w + add.w;
        largest = fmaxf(largest, largest_of(numbers[i], 4));
    }
    float factor = factor_of(warp_max(largest), lane == 0 ? scales + row : nullptr);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column < width) *(u32*)(to + (u64)row * width + column) = pack_e4m3(numbers[i], factor);
    }
}

// Keys and values of windows, [window][frame][key, value][head][64] in bf16, to e4m3 [key, value][head][frame][64] of their slots with a
// scale for each head. `heads` counts those of keys and of values. Grid: heads, windows.
extern "C" __global__ void __launch_bounds__(256) store_window_keys_fp8(
    const u16* rows, const u32* slots, u8* to, u64 slot_stride, float* scales, u64 scale_stride, int frames, int heads) {
    take_turn();
    u32 head = blockIdx.x, slot = slots[blockIdx.y], piece = threadIdx.x & 7;
    rows += ((u64)blockIdx.y * frames * heads + head) * HEAD + piece * 8;
    to += slot * slot_stride + (u64)head * frames * HEAD + piece * 8;
    float numbers[8], largest = 0.f;
#pragma unroll 8
    for (int frame = threadIdx.x >> 3; frame < frames; frame += 32) {
        unpack8(*(const uint4*)(rows + (u64)frame * heads * HEAD), numbers);
        largest = fmaxf(largest, largest_of(numbers, 8));
    }
    float factor = factor_of(block_max(largest), threadIdx.x == 0 ? scales + slot * scale_stride + head : nullptr);
#pragma unroll 8
    for (int frame = threadIdx.x >> 3; frame < frames; frame += 32) {
        unpack8(*(const uint4*)(rows + (u64)frame * heads * HEAD), numbers);
        *(uint2*)(to + (u64)frame * HEAD) = make_uint2(pack_e4m3(numbers, factor), pack_e4m3(numbers + 4, factor));
    }
}
