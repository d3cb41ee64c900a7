// Self-attention of the encoder over whole windows: every frame attends to every frame of its window.
//
// Flash attention on tensor cores by mma.sync, for every architecture from sm_80 on. A block of 256 threads has 128 queries of one
// head; keys and values come in blocks of 64 frames through a ring of two stages (cp.async). Scores never leave registers: the
// accumulators of the scores have the layout of the first operand of the second product. The softmax keeps a running maximum.
//
// Rows of 64 numbers are 128 bytes in shared memory, in eight pieces of 16 bytes; a piece lies at its number XOR row % 8, so that the
// eight rows which a ldmatrix reads at once fall into different banks.

#define QUERIES 128
#define KEYS 64
#define HEAD 64

__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ __forceinline__ u32 swizzled(u32 base, int row, int piece) { return base + row * 128 + ((piece ^ (row & 7)) << 4); }

__device__ __forceinline__ void copy16(u32 to, const void* from, bool valid) {
    // Beyond the window zeros are written.
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void load_matrices(u32 address, u32* four) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                 : "r"(address));
}

__device__ __forceinline__ void load_matrices_transposed(u32 address, u32* four) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                 : "r"(address));
}

// qkv: [window][frame][query, key, value][width], out: [window][frame][width]. Grid: blocks of queries, heads, windows.
extern "C" __global__ void __launch_bounds__(256, 2) encoder_attention(const u16* qkv, u16* out, int frames, int width, float scale) {
    extern __shared__ __align__(128) u8 memory[];
    take_turn();
    u32 queries = shared_address(memory), keys = queries + QUERIES * 128, values = keys + 2 * KEYS * 128;
    int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    int first = blockIdx.x * QUERIES, head = blockIdx.y;
    u64 pitch = 3 * (u64)width;
    const u16* window = qkv + (u64)blockIdx.z * frames * pitch + head * HEAD;

    auto load_block = [&](int block) {
        u32 stage = (block & 1) * KEYS * 128;
#pragma unroll
        for (int i = 0; i < KEYS * 8 / 256; i++) {
            int piece = thread + i * 256, row = piece >> 3, column = piece & 7, frame = block * KEYS + row;
            const u16* from = window + (u64)min(frame, frames - 1) * pitch + width + column * 8;
            copy16(swizzled(keys + stage, row, column), from, frame < frames);
            copy16(swizzled(values + stage, row, column), from + width, frame < frames);
        }
        asm volatile("cp.async.commit_group;");
    };

#pragma unroll
    for (int i = 0; i < QUERIES * 8 / 256; i++) {
        int piece = thread + i * 256, row = piece >> 3, column = piece & 7, frame = first + row;
        copy16(swizzled(queries, row, column), window + (u64)min(frame, frames - 1) * pitch + column * 8, frame < frames);
    }
    load_block(0);

    float sums[8][4] = {}, top[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, total[2] = {0.f, 0.f};
    u32 query[4][4];
    float by = scale * LOG2_E;
    int blocks = (frames + KEYS - 1) / KEYS;
    for (int block = 0; block < blocks; block++) {
        if (block + 1 < blocks) {
            load_block(block + 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        u32 stage = (block & 1) * KEYS * 128;
        if (block == 0) {
#pragma unroll
            for (int k = 0; k < 4; k++) load_matrices(swizzled(queries, warp * 16 + (lane & 15), 2 * k + (lane >> 4)), query[k]);
        }
        // Scores: eight tiles of 16 queries by 8 keys.
        float scores[8][4] = {};
#pragma unroll
        for (int tile = 0; tile < 8; tile += 2) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                // Keys of two tiles, both halves of 16 numbers.
                u32 key[4];
                load_matrices(swizzled(keys + stage, tile * 8 + (lane & 7) + ((lane >> 4) << 3), 2 * k + ((lane >> 3) & 1)), key);
                multiply_add(scores[tile], query[k], key[0], key[1]);
                multiply_add(scores[tile + 1], query[k], key[2], key[3]);
            }
        }
        if (block == blocks - 1) {
#pragma unroll
            for (int tile = 0; tile < 8; tile++) {
                int frame = block * KEYS + tile * 8 + (lane & 3) * 2;
                if (frame >= frames) scores[tile][0] = scores[tile][2] = NEGATIVE_INFINITY;
                if (frame + 1 >= frames) scores[tile][1] = scores[tile][3] = NEGATIVE_INFINITY;
            }
        }
        // A thread has two rows, of which four threads have the columns.
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float now = top[half];
#pragma unroll
            for (int tile = 0; tile < 8; tile++) now = fmaxf(now, fmaxf(scores[tile][2 * half], scores[tile][2 * half + 1]));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            float keep = exp2_approx((top[half] - now) * by), offset = now * by, sum = 0.f;
            top[half] = now;
#pragma unroll
            for (int tile = 0; tile < 8; tile++) {
                scores[tile][2 * half] = exp2_approx(scores[tile][2 * half] * by - offset);
                scores[tile][2 * half + 1] = exp2_approx(scores[tile][2 * half + 1] * by - offset);
                sum += scores[tile][2 * half] + scores[tile][2 * half + 1];
                sums[tile][2 * half] *= keep;
                sums[tile][2 * half + 1] *= keep;
            }
            total[half] = total[half] * keep + sum;
        }
        // Probabilities by values: four steps of 16 keys, eight tiles of 8 numbers of the head.
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 weight[4] = {
                pack_bf16(scores[2 * k][0], scores[2 * k][1]),
                pack_bf16(scores[2 * k][2], scores[2 * k][3]),
                pack_bf16(scores[2 * k + 1][0], scores[2 * k + 1][1]),
                pack_bf16(scores[2 * k + 1][2], scores[2 * k + 1][3]),
            };
#pragma unroll
            for (int tile = 0; tile < 8; tile += 2) {
                u32 value[4];
                load_matrices_transposed(swizzled(values + stage, k * 16 + (lane & 15), tile + (lane >> 4)), value);
                multiply_add(sums[tile], weight, value[0], value[1]);
                multiply_add(sums[tile + 1], weight, value[2], value[3]);
            }
        }
        // The next block overwrites this stage.
        __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = total[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        float share = 1.f / sum;
        int frame = first + warp * 16 + (lane >> 2) + half * 8;
        if (frame >= frames) continue;
        u16* row = out + ((u64)blockIdx.z * frames + frame) * width + head * HEAD + (lane & 3) * 2;
#pragma unroll
        for (int tile = 0; tile < 8; tile++)
            *(u32*)(row + tile * 8) = pack_bf16(sums[tile][2 * half] * share, sums[tile][2 * half + 1] * share);
    }
}
