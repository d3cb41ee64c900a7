// Attention of the decoder: of tokens to their own past, and to the window.
//
// Few rows, much memory: every kernel is bound by reading keys and values. Eight lanes read the 64 numbers of a key, 16 bytes each.

#define HEAD 64
#define MOST_POSITIONS 448

// The KV cache is [row][layer][position][key, value][width].
__device__ __forceinline__ u64 cache_place(u32 row, u32 layer, u32 position, int layers, int positions, int width) {
    return (((u64)row * layers + layer) * positions + position) * 2 * width;
}

// Copies keys and values of the new tokens into the cache. qkv: [entry][query, key, value][width]. A block an entry.
extern "C" __global__ void store_keys_values(
    const Entry* entries, const u16* qkv, u16* cache, int layer, int layers, int positions, int width) {
    take_turn();
    Entry entry = entries[blockIdx.x];
    if (entry.row == NO_ENTRY) return;
    const uint4* from = (const uint4*)(qkv + (u64)blockIdx.x * 3 * width + width);
    uint4* to = (uint4*)(cache + cache_place(entry.row, layer, entry.position, layers, positions, width));
    for (int i = threadIdx.x; i < 2 * width / 8; i += blockDim.x) to[i] = from[i];
}

__device__ __forceinline__ float dot8(uint4 bits, const float* query) {
    float numbers[8], sum = 0.f;
    unpack8(bits, numbers);
#pragma unroll
    for (int i = 0; i < 8; i++) sum += query[i] * numbers[i];
    return sum;
}

// The sum over the eight lanes that share a key.
__device__ __forceinline__ float eight_lanes_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    x += __shfl_xor_sync(~0u, x, 2);
    return x + __shfl_xor_sync(~0u, x, 4);
}

// Self-attention. `past[entry][position]` is the row of the cache that has the key of that position. An entry's own key and value come
// from `qkv`, and are stored in the cache if `stores` says so: not where entries follow each other. Grid: heads, entries.
extern "C" __global__ void __launch_bounds__(128) self_attention(
    const Entry* entries, const u16* past, const u16* qkv, u16* cache, u16* out, int layer, int layers, int positions, int width, int stores) {
    take_turn();
    __shared__ float scores[MOST_POSITIONS];
    __shared__ float sums[4][HEAD];
    __shared__ float tops[4], totals[4];
    Entry entry = entries[blockIdx.y];
    if (entry.row == NO_ENTRY) return;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, piece = lane & 7, group = lane >> 3;
    int count = entry.position + 1, column = blockIdx.x * HEAD + piece * 8;
    const u16* owners = past + (u64)blockIdx.y * positions;
    const u16* own = qkv + (u64)blockIdx.y * 3 * width + column;
    auto key_at = [&](int position) {
        if (position == (int)entry.position) return own + width;
        return (const u16*)cache + cache_place(owners[position], layer, position, layers, positions, width) + column;
    };
    if (stores && threadIdx.x < 16) {
        int part = threadIdx.x >> 3;
        uint4 numbers = *(const uint4*)(own + (1 + part) * width);
        *(uint4*)(cache + cache_place(entry.row, layer, entry.position, layers, positions, width) + part * width + column) = numbers;
    }
    float query[8];
    unpack8(*(const uint4*)own, query);
    float top = NEGATIVE_INFINITY;
    for (int first = warp * 4; first < count; first += 16) {
        int position = first + group;
        bool valid = position < count;
        int at = valid ? position : count - 1;
        uint4 key = *(const uint4*)key_at(at);
        float score = eight_lanes_sum(dot8(key, query)) * 0.125f;
        if (valid) {
            if (piece == 0) scores[position] = score;
            top = fmaxf(top, score);
        }
    }
    top = warp_max(top);
    if (lane == 0) tops[warp] = top;
    __syncthreads();
    top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    float total = 0.f;
    for (int position = threadIdx.x; position < count; position += 128) {
        float weight = exp2_approx((scores[position] - top) * LOG2_E);
        scores[position] = weight;
        total += weight;
    }
    total = warp_sum(total);
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    float sum[8] = {};
    for (int position = warp * 4 + group; position < count; position += 16) {
        float value[8], weight = scores[position];
        unpack8(*(const uint4*)(key_at(position) + width), value);
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += weight * value[i];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sum[i] += __shfl_xor_sync(~0u, sum[i], 8);
        sum[i] += __shfl_xor_sync(~0u, sum[i], 16);
        if (group == 0) sums[warp][piece * 8 + i] = sum[i];
    }
    __syncthreads();
    if (threadIdx.x < HEAD) {
        int i = threadIdx.x;
        float all = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
        out[(u64)blockIdx.y * width + blockIdx.x * HEAD + i] = to_bf16(all / total);
    }
}

// Cross-attention of each entry to its window. Keys and values of a layer of a window: [key, value][head][frame][64]; `windows` begins at
// the layer, slots are `slot_stride` numbers apart. Grid: heads, entries, parts of the window; with more than one part each leaves its
// maximum, sum and 64 sums in `parts`, and the last one, which `counts` tells, joins them. `counts` is zero before and after.
//
// Keys and values are read once and together; eight lanes, which share a frame, keep a maximum of their own, and all are joined at the end.
#define CROSS_WARPS 8
extern "C" __global__ void __launch_bounds__(CROSS_WARPS * 32) cross_attention(
    const Entry* entries, const u16* queries, const u16* windows, u64 slot_stride, u16* out, float* parts, u32* counts, int frames,
    int width) {
    take_turn();
    __shared__ bool is_last;
    __shared__ float sums[CROSS_WARPS][HEAD];
    __shared__ float tops[CROSS_WARPS], totals[CROSS_WARPS];
    const int DEEP = 4, STEP = CROSS_WARPS * 4 * DEEP;
    Entry entry = entries[blockIdx.y];
    if (entry.row == NO_ENTRY) return;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, piece = lane & 7, group = lane >> 3;
    int a_part = (frames + gridDim.z - 1) / gridDim.z;
    int begin = blockIdx.z * a_part, end = min(frames, begin + a_part);
    const u16* keys = windows + entry.slot * slot_stride + (u64)blockIdx.x * frames * HEAD + piece * 8;
    const u16* values = keys + (u64)width * frames;
    float query[8];
    unpack8(*(const uint4*)(queries + (u64)blockIdx.y * width + blockIdx.x * HEAD + piece * 8), query);
#pragma unroll
    for (int i = 0; i < 8; i++) query[i] *= 0.125f * LOG2_E;
    // Finite, so that a difference of two of them is a number.
    float top = -1e30f, total = 0.f, sum[8] = {};
    for (int first = begin + warp * 4 * DEEP + group; first - group < end; first += STEP) {
        uint4 key[DEEP], value[DEEP];
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            u64 place = (u64)min(first + 4 * i, end - 1) * HEAD;
            key[i] = __ldcs((const uint4*)(keys + place));
            value[i] = __ldcs((const uint4*)(values + place));
        }
        float score[DEEP], higher = top;
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            score[i] = eight_lanes_sum(dot8(key[i], query));
            if (first + 4 * i >= end) score[i] = NEGATIVE_INFINITY;
            higher = fmaxf(higher, score[i]);
        }
        float keep = exp2_approx(top - higher);
        top = higher;
        total *= keep;
#pragma unroll
        for (int k = 0; k < 8; k++) sum[k] *= keep;
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            float numbers[8], weight = exp2_approx(score[i] - top);
            unpack8(value[i], numbers);
            total += weight;
#pragma unroll
            for (int k = 0; k < 8; k++) sum[k] += weight * numbers[k];
        }
    }
#pragma unroll
    for (int lanes = 8; lanes <= 16; lanes <<= 1) {
        float higher = fmaxf(top, __shfl_xor_sync(~0u, top, lanes)), keep = exp2_approx(top - higher);
        top = higher;
        total *= keep;
        total += __shfl_xor_sync(~0u, total, lanes);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            sum[k] *= keep;
            sum[k] += __shfl_xor_sync(~0u, sum[k], lanes);
        }
    }
    if (group == 0) {
#pragma unroll
        for (int k = 0; k < 8; k++) sums[warp][piece * 8 + k] = sum[k];
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
        if (threadIdx.x < HEAD) *to = to_bf16(all / total);
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
    *to = to_bf16(all / total);
}

// The scores of one head of cross-attention for the first `wanted` frames, scaled, before the softmax: to[row][frame] for the entries
// from `first` on. Grid: entries from `first` on, frames by 128.
extern "C" __global__ void __launch_bounds__(128) head_scores(
    const Entry* entries, const u16* queries, const u16* windows, u64 slot_stride, float* to, int first, int head, int wanted, int frames,
    int width) {
    take_turn();
    int frame = blockIdx.y * 128 + threadIdx.x;
    if (frame >= wanted) return;
    u64 index = first + blockIdx.x;
    const u16* query = queries + index * width + head * HEAD;
    const u16* key = windows + entries[index].slot * slot_stride + ((u64)head * frames + frame) * HEAD;
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < HEAD; i += 8) {
        float one[8];
        unpack8(*(const uint4*)(query + i), one);
        sum += dot8(*(const uint4*)(key + i), one);
    }
    to[(u64)blockIdx.x * wanted + frame] = sum * 0.125f;
}
