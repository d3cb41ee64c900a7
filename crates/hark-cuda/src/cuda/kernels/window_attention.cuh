// Cross-attention of the decoder to the windows, for keys and values of either format.
//
// Bound by reading keys and values: each is read once, 16 bytes a lane. The lanes that share a frame keep a maximum of their own, and all
// are joined at the end.

#define HEAD 64

// Keys and values in bf16: eight lanes a frame.
struct Bf16Keys {
    typedef u16 Number;
    static const int EACH = 8;
    static __device__ __forceinline__ void unpack(uint4 bits, float* numbers) { unpack8(bits, numbers); }
};

template <typename Format> __device__ __forceinline__ float dot(uint4 bits, const float* query) {
    float numbers[Format::EACH], sum = 0.f;
    Format::unpack(bits, numbers);
#pragma unroll
    for (int i = 0; i < Format::EACH; i++) sum += query[i] * numbers[i];
    return sum;
}

// Cross-attention of each entry to its window. Keys and values of a layer of a window: [key, value][head][frame][64]; `windows` begins at
// the layer, slots are `slot_stride` numbers apart. What numbers are multiplied by: [key, value][head], `scale_stride` apart; null where
// they are what they are. Grid: heads, entries, parts of the window; with more than one part each leaves its maximum, sum and 64 sums in
// `parts`, and the last one, which `counts` tells, joins them. `counts` is zero before and after.
#define CROSS_WARPS 8
template <typename Format>
__device__ __forceinline__ void window_attention(
    const Entry* entries, const u16* queries, const typename Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride,
    u16* out, float* parts, u32* counts, int frames, int width) {
    take_turn();
    __shared__ bool is_last;
    __shared__ float sums[CROSS_WARPS][HEAD];
    __shared__ float tops[CROSS_WARPS], totals[CROSS_WARPS];
    // Numbers of a lane, lanes of a frame, frames of a warp at a time, and how many of those are on their way at once.
    const int EACH = Format::EACH, LANES = HEAD / EACH, GROUPS = 32 / LANES, DEEP = 4, STEP = CROSS_WARPS * GROUPS * DEEP;
    Entry entry = entries[blockIdx.y];
    if (entry.row == NO_ENTRY) return;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, piece = lane % LANES, group = lane / LANES;
    int a_part = (frames + gridDim.z - 1) / gridDim.z;
    int begin = blockIdx.z * a_part, end = min(frames, begin + a_part);
    const typename Format::Number* keys = windows + entry.slot * slot_stride + (u64)blockIdx.x * frames * HEAD + piece * EACH;
    const typename Format::Number* values = keys + (u64)width * frames;
    float of_keys = 0.125f * LOG2_E, of_values = 1.f;
    if (scales) {
        scales += entry.slot * scale_stride + blockIdx.x;
        of_keys *= scales[0];
        of_values = scales[gridDim.x];
    }
    float query[EACH];
    const u16* from = queries + (u64)blockIdx.y * width + blockIdx.x * HEAD + piece * EACH;
#pragma unroll
    for (int i = 0; i < EACH; i += 8) unpack8(*(const uint4*)(from + i), query + i);
#pragma unroll
    for (int i = 0; i < EACH; i++) query[i] *= of_keys;
    // Finite, so that a difference of two of them is a number.
    float top = -1e30f, total = 0.f, sum[EACH] = {};
    for (int first = begin + warp * GROUPS * DEEP + group; first - group < end; first += STEP) {
        uint4 key[DEEP], value[DEEP];
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            u64 place = (u64)min(first + GROUPS * i, end - 1) * HEAD;
            key[i] = __ldcs((const uint4*)(keys + place));
            value[i] = __ldcs((const uint4*)(values + place));
        }
        float score[DEEP], higher = top;
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            score[i] = dot<Format>(key[i], query);
#pragma unroll
            for (int lanes = 1; lanes < LANES; lanes <<= 1) score[i] += __shfl_xor_sync(~0u, score[i], lanes);
            if (first + GROUPS * i >= end) score[i] = NEGATIVE_INFINITY;
            higher = fmaxf(higher, score[i]);
        }
        float keep = exp2_approx(top - higher);
        top = higher;
        total *= keep;
#pragma unroll
        for (int k = 0; k < EACH; k++) sum[k] *= keep;
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            float numbers[EACH], weight = exp2_approx(score[i] - top);
            Format::unpack(value[i], numbers);
            total += weight;
#pragma unroll
            for (int k = 0; k < EACH; k++) sum[k] += weight * numbers[k];
        }
    }
#pragma unroll
    for (int lanes = LANES; lanes <= 16; lanes <<= 1) {
        float higher = fmaxf(top, __shfl_xor_sync(~0u, top, lanes)), keep = exp2_approx(top - higher);
        top = higher;
        total *= keep;
        total += __shfl_xor_sync(~0u, total, lanes);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            sum[k] *= keep;
            sum[k] += __shfl_xor_sync(~0u, sum[k], lanes);
        }
    }
    if (group == 0) {
#pragma unroll
        for (int k = 0; k < EACH; k++) sums[warp][piece * EACH + k] = sum[k];
    }
    if (lane == 0) {
        tops[warp] = top;
        totals[warp] = total;
    }
    __syncthreads();
    float all = 0.f;
    total = 0.f;
#pragma unroll
    for (int i = 0; i < CROSS_WARPS; i++) top = fmaxf(top, tops[i]);
#pragma unroll
    for (int i = 0; i < CROSS_WARPS; i++) {
        float keep = exp2_approx(tops[i] - top);
        total += keep * totals[i];
        all += keep * sums[i][threadIdx.x & (HEAD - 1)];
    }
    u16* to = out + (u64)blockIdx.y * width + blockIdx.x * HEAD + threadIdx.x;
    if (gridDim.z == 1) {
        if (threadIdx.x < HEAD) *to = to_bf16(all / total * of_values);
        return;
    }
    u32 place = blockIdx.y * gridDim.x + blockIdx.x;
    parts += (u64)place * gridDim.z * (HEAD + 2);
    float* part = parts + blockIdx.z * (HEAD + 2);
    if (threadIdx.x < HEAD) part[2 + threadIdx.x] = all;
    if (threadIdx.x == 0) {
        part[0] = top;
        part[1] = total;
    }
    __threadfence();
    __syncthreads();
    // It wraps around to zero.
    if (threadIdx.x == 0) is_last = atomicInc(counts + place, gridDim.z - 1) == gridDim.z - 1;
    __syncthreads();
    if (!is_last || threadIdx.x >= HEAD) return;
    __threadfence();
    top = NEGATIVE_INFINITY;
    all = total = 0.f;
    for (int i = 0; i < gridDim.z; i++) top = fmaxf(top, __ldcg(parts + i * (HEAD + 2)));
    for (int i = 0; i < gridDim.z; i++) {
        const float* other = parts + i * (HEAD + 2);
        float keep = exp2_approx(__ldcg(other) - top);
        total += keep * __ldcg(other + 1);
        all += keep * __ldcg(other + 2 + threadIdx.x);
    }
    *to = to_bf16(all / total * of_values);
}

// The scores of one head of cross-attention for the first `wanted` frames, scaled, before the softmax: to[row][frame] for the entries
// from `first` on. Grid: entries from `first` on, frames by 128.
template <typename Format>
__device__ __forceinline__ void window_scores(
    const Entry* entries, const u16* queries, const typename Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride,
    float* to, int first, int head, int wanted, int frames, int width) {
    take_turn();
    int frame = blockIdx.y * 128 + threadIdx.x;
    if (frame >= wanted) return;
    const int EACH = Format::EACH;
    u64 index = first + blockIdx.x, slot = entries[index].slot;
    const u16* query = queries + index * width + head * HEAD;
    const typename Format::Number* key = windows + slot * slot_stride + ((u64)head * frames + frame) * HEAD;
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < HEAD; i += EACH) {
        float one[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k += 8) unpack8(*(const uint4*)(query + i + k), one + k);
        sum += dot<Format>(*(const uint4*)(key + i), one);
    }
    to[(u64)blockIdx.x * wanted + frame] = sum * (scales ? 0.125f * scales[slot * scale_stride + head] : 0.125f);
}

#define WINDOW_KERNELS(Format, attention, head_scores)                                                                                   \
    extern "C" __global__ void __launch_bounds__(CROSS_WARPS * 32) attention(                                                            \
        const Entry* entries, const u16* queries, const Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride, \
        u16* out, float* parts, u32* counts, int frames, int width) {                                                                    \
        window_attention<Format>(entries, queries, windows, slot_stride, scales, scale_stride, out, parts, counts, frames, width);       \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) head_scores(                                                                       \
        const Entry* entries, const u16* queries, const Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride, \
        float* to, int first, int head, int wanted, int frames, int width) {                                                             \
        window_scores<Format>(entries, queries, windows, slot_stride, scales, scale_stride, to, first, head, wanted, frames, width);     \
    }
