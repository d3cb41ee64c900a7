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

    // What tensor cores need: sixteen numbers of a key, eight of a value, pairs of numbers as operands, and their product.
    struct Key {
        uint4 low, high;
    };
    typedef uint4 Value;
    static __device__ __forceinline__ Key load_key(const u16* from) { return {__ldcs((const uint4*)from), __ldcs((const uint4*)from + 1)}; }
    static __device__ __forceinline__ Value load_value(const u16* from) { return __ldcs((const uint4*)from); }
    static __device__ __forceinline__ void key_pairs(const Key& key, u32* pairs) {
        pairs[0] = key.low.x, pairs[1] = key.low.y, pairs[2] = key.low.z, pairs[3] = key.low.w;
        pairs[4] = key.high.x, pairs[5] = key.high.y, pairs[6] = key.high.z, pairs[7] = key.high.w;
    }
    // The same number of two values.
    static __device__ __forceinline__ u32 value_pair(const Value& one, const Value& other, int number) {
        const u32 ones[4] = {one.x, one.y, one.z, one.w}, others[4] = {other.x, other.y, other.z, other.w};
        return __byte_perm(ones[number >> 1], others[number >> 1], number & 1 ? 0x7632 : 0x5410);
    }
    static __device__ __forceinline__ u32 query_pair(u32 bits) { return bits; }
    static __device__ __forceinline__ u32 pack(float first, float second) { return pack_bf16(first, second); }
    static __device__ __forceinline__ void multiply(float* sums, const u32* a, u32 b0, u32 b1) { multiply_add(sums, a, b0, b1); }
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

// The same for groups of up to 16 entries that follow each other and have one window, such as the rows of a beam or the tokens of a prompt:
// its keys and values are read once for all of them. `groups` has the first entry and the number of entries; none where it is zero.
// Grid: heads, groups, parts of the window.
//
// Products by tensor cores, rows of queries by frames, then by numbers. Which number of a head is which of a product does not matter as
// long as both operands agree: so every lane loads sixteen numbers of a key, and eight numbers of four values. Lane: row or frame
// `lane / 4`, quarter `lane % 4`. Every warp has frames of its own, and all are joined at the end.
#define SHARED_ROWS 16
template <typename Format>
__device__ __forceinline__ void shared_window_attention(
    const Entry* entries, const uint2* groups, const u16* queries, const typename Format::Number* windows, u64 slot_stride,
    const float* scales, u64 scale_stride, u16* out, float* parts, u32* counts, int frames, int width) {
    take_turn();
    __shared__ bool is_last;
    __shared__ float sums[CROSS_WARPS][SHARED_ROWS][HEAD];
    __shared__ float tops[CROSS_WARPS][SHARED_ROWS], totals[CROSS_WARPS][SHARED_ROWS];
    uint2 group = groups[blockIdx.y];
    int first_entry = group.x, rows = group.y;
    if (rows == 0) return;
    u32 slot = entries[first_entry].slot;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, eighth = lane >> 2, quarter = lane & 3;
    int a_part = (frames + gridDim.z - 1) / gridDim.z;
    int begin = blockIdx.z * a_part, end = min(frames, begin + a_part);
    const typename Format::Number* keys = windows + slot * slot_stride + (u64)blockIdx.x * frames * HEAD;
    const typename Format::Number* values = keys + (u64)width * frames;
    float of_scores = 0.125f * LOG2_E, of_values = 1.f;
    if (scales) {
        scales += slot * scale_stride + blockIdx.x;
        of_scores *= scales[0];
        of_values = scales[gridDim.x];
    }
    u32 query[4][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = min(eighth + 8 * half, rows - 1);
        const uint4* from = (const uint4*)(queries + (u64)(first_entry + row) * width + blockIdx.x * HEAD + quarter * 16);
        uint4 low = from[0], high = from[1];
        query[0][half] = Format::query_pair(low.x), query[0][2 + half] = Format::query_pair(low.y);
        query[1][half] = Format::query_pair(low.z), query[1][2 + half] = Format::query_pair(low.w);
        query[2][half] = Format::query_pair(high.x), query[2][2 + half] = Format::query_pair(high.y);
        query[3][half] = Format::query_pair(high.z), query[3][2 + half] = Format::query_pair(high.w);
    }
    const int FRAMES = 16, STEP = CROSS_WARPS * FRAMES;
    typename Format::Key key[2];
    typename Format::Value value[4];
    auto load = [&](int first) {
        if (first >= end) return;
#pragma unroll
        for (int i = 0; i < 2; i++) key[i] = Format::load_key(keys + (u64)min(first + 8 * i + eighth, end - 1) * HEAD + quarter * 16);
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = Format::load_value(values + (u64)min(first + 8 * (i >> 1) + 2 * quarter + (i & 1), end - 1) * HEAD + eighth * 8);
    };
    // Of the rows `eighth` and `eighth + 8`. Finite, so that a difference of two of them is a number.
    float top[2] = {-1e30f, -1e30f}, total[2] = {}, sum[8][4] = {};
    load(begin + warp * FRAMES);
    for (int first = begin + warp * FRAMES; first < end; first += STEP) {
        float score[2][4] = {};
        u32 of_values_now[8][2];
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
            u32 pairs[8];
            Format::key_pairs(key[tile], pairs);
#pragma unroll
            for (int i = 0; i < 4; i++) Format::multiply(score[tile], query[i], pairs[2 * i], pairs[2 * i + 1]);
        }
#pragma unroll
        for (int tile = 0; tile < 8; tile++) {
            of_values_now[tile][0] = Format::value_pair(value[0], value[1], tile);
            of_values_now[tile][1] = Format::value_pair(value[2], value[3], tile);
        }
        load(first + STEP);
        float higher[2] = {top[0], top[1]};
#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int frame = first + 8 * tile + 2 * quarter + (i & 1);
                score[tile][i] = frame < end ? score[tile][i] * of_scores : NEGATIVE_INFINITY;
                higher[i >> 1] = fmaxf(higher[i >> 1], score[tile][i]);
            }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            higher[half] = fmaxf(higher[half], __shfl_xor_sync(~0u, higher[half], 1));
            higher[half] = fmaxf(higher[half], __shfl_xor_sync(~0u, higher[half], 2));
            float keep = exp2_approx(top[half] - higher[half]);
            top[half] = higher[half];
            total[half] *= keep;
#pragma unroll
            for (int tile = 0; tile < 8; tile++) {
                sum[tile][2 * half] *= keep;
                sum[tile][2 * half + 1] *= keep;
            }
        }
#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                score[tile][i] = exp2_approx(score[tile][i] - top[i >> 1]);
                total[i >> 1] += score[tile][i];
            }
        u32 weights[4] = {Format::pack(score[0][0], score[0][1]), Format::pack(score[0][2], score[0][3]),
                          Format::pack(score[1][0], score[1][1]), Format::pack(score[1][2], score[1][3])};
#pragma unroll
        for (int tile = 0; tile < 8; tile++) Format::multiply(sum[tile], weights, of_values_now[tile][0], of_values_now[tile][1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(~0u, total[half], 1);
        total[half] += __shfl_xor_sync(~0u, total[half], 2);
        int row = eighth + 8 * half;
#pragma unroll
        for (int tile = 0; tile < 8; tile++) {
            sums[warp][row][2 * quarter * 8 + tile] = sum[tile][2 * half];
            sums[warp][row][(2 * quarter + 1) * 8 + tile] = sum[tile][2 * half + 1];
        }
        if (quarter == 0) {
            tops[warp][row] = top[half];
            totals[warp][row] = total[half];
        }
    }
    __syncthreads();
    int column = threadIdx.x & (HEAD - 1);
    u64 a_row = (u64)gridDim.x * gridDim.z * (HEAD + 2);
    parts += (u64)first_entry * a_row + (u64)blockIdx.x * gridDim.z * (HEAD + 2);
    u16* to = out + (u64)first_entry * width + blockIdx.x * HEAD + column;
    for (int row = threadIdx.x / HEAD; row < rows; row += CROSS_WARPS * 32 / HEAD) {
        float highest = NEGATIVE_INFINITY, all = 0.f, weight = 0.f;
#pragma unroll
        for (int i = 0; i < CROSS_WARPS; i++) highest = fmaxf(highest, tops[i][row]);
#pragma unroll
        for (int i = 0; i < CROSS_WARPS; i++) {
            float keep = exp2_approx(tops[i][row] - highest);
            weight += keep * totals[i][row];
            all += keep * sums[i][row][column];
        }
        if (gridDim.z == 1) {
            to[(u64)row * width] = to_bf16(all / weight * of_values);
            continue;
        }
        float* part = parts + row * a_row + blockIdx.z * (HEAD + 2);
        part[2 + column] = all;
        if (column == 0) {
            part[0] = highest;
            part[1] = weight;
        }
    }
    if (gridDim.z == 1) return;
    __threadfence();
    __syncthreads();
    // It wraps around to zero.
    if (threadIdx.x == 0) is_last = atomicInc(counts + blockIdx.y * gridDim.x + blockIdx.x, gridDim.z - 1) == gridDim.z - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    for (int row = threadIdx.x / HEAD; row < rows; row += CROSS_WARPS * 32 / HEAD) {
        const float* of_row = parts + row * a_row;
        float highest = NEGATIVE_INFINITY, all = 0.f, weight = 0.f;
        for (int i = 0; i < gridDim.z; i++) highest = fmaxf(highest, __ldcg(of_row + i * (HEAD + 2)));
        for (int i = 0; i < gridDim.z; i++) {
            const float* other = of_row + i * (HEAD + 2);
            float keep = exp2_approx(__ldcg(other) - highest);
            weight += keep * __ldcg(other + 1);
            all += keep * __ldcg(other + 2 + column);
        }
        to[(u64)row * width] = to_bf16(all / weight * of_values);
    }
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

#define WINDOW_KERNELS(Format, attention, shared_attention, head_scores)                                                                 \
    extern "C" __global__ void __launch_bounds__(CROSS_WARPS * 32) attention(                                                            \
        const Entry* entries, const u16* queries, const Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride, \
        u16* out, float* parts, u32* counts, int frames, int width) {                                                                    \
        window_attention<Format>(entries, queries, windows, slot_stride, scales, scale_stride, out, parts, counts, frames, width);       \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(CROSS_WARPS * 32) shared_attention(                                                     \
        const Entry* entries, const uint2* groups, const u16* queries, const Format::Number* windows, u64 slot_stride,                   \
        const float* scales, u64 scale_stride, u16* out, float* parts, u32* counts, int frames, int width) {                             \
        shared_window_attention<Format>(                                                                                                 \
            entries, groups, queries, windows, slot_stride, scales, scale_stride, out, parts, counts, frames, width);                    \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) head_scores(                                                                       \
        const Entry* entries, const u16* queries, const Format::Number* windows, u64 slot_stride, const float* scales, u64 scale_stride, \
        float* to, int first, int head, int wanted, int frames, int width) {                                                             \
        window_scores<Format>(entries, queries, windows, slot_stride, scales, scale_stride, to, first, head, wanted, frames, width);     \
    }
