// Self-attention of the decoder: of tokens to their own past.
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
