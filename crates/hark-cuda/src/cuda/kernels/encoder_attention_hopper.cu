// Self-attention of the encoder on Hopper (sm_90a): flash attention by wgmma, fed by the copy engine (TMA).
//
// A block stays on its multiprocessor and takes one tile of queries after another: three consumer warpgroups have 64 queries each, and
// one thread of a fourth, the producer, begins the copies. Keys and values come in blocks of 128 frames through rings of four stages;
// an mbarrier a stage says that it is full, another that every consumer has read it.
//
// While the product of probabilities and values of one block runs, the exponentials of the next are taken. The warpgroups issue their
// products in turns, so that one computes exponentials while another has the tensor cores.
//
// The exponent's reference is the row's maximum over one block, the ragged last one, which is done first: masking and maximum are then
// outside of the loop, and nothing is rescaled. bf16 and f32 have the same range of exponents, so later scores lose no precision however
// much higher or lower they are; only a score 100 powers of two above the reference overflows. Rows with such a sum are done again.

#define GROUPS 3
#define TILE 64
#define KEYS 128
#define STAGES 4
#define HEAD 64

#define ROW_BYTES (HEAD * 2)
#define TILE_BYTES (TILE * ROW_BYTES)
#define STAGE_BYTES (KEYS * ROW_BYTES)
// Shared memory, from an address that is a multiple of 1,024.
#define QUERIES_AT 0
#define OUT_AT (QUERIES_AT + GROUPS * TILE_BYTES)
#define KEYS_AT (OUT_AT + GROUPS * TILE_BYTES)
#define VALUES_AT (KEYS_AT + STAGES * STAGE_BYTES)
#define BARRIERS_AT (VALUES_AT + STAGES * STAGE_BYTES)

// The sum beyond which a row is done again.
#define OVERFLOWED 1e30f

// A CUtensorMap: how the copy engine finds rows of a tensor.
struct alignas(64) TensorMap {
    u64 words[16];
};

// ---- barriers in shared memory

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 phase) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(barrier), "r"(phase)
        : "memory");
}

// A ring of stages with a barrier for each that it is full and one that it is empty.
struct Ring {
    u32 full, empty;
    u32 stage, phase;

    __device__ __forceinline__ u32 full_at() const { return full + 8 * stage; }
    __device__ __forceinline__ u32 empty_at() const { return empty + 8 * stage; }
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

// Barriers of `threads` threads by number, of which some only arrive.
__device__ __forceinline__ void meet(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
__device__ __forceinline__ void arrive(int number, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
#define MEET_GROUP(group) meet(1 + (group), 128)
#define MY_TURN(group) meet(1 + GROUPS + (group), 256)
#define GIVE_TURN(group) arrive(1 + GROUPS + (group), 256)

// ---- the copy engine

__device__ __forceinline__ void copy_in(u32 to, const TensorMap* map, u32 barrier, int frame, int head, int window) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(0), "r"(frame), "r"(head), "r"(window)
        : "memory");
}

__device__ __forceinline__ void copy_out(const TensorMap* map, u32 from, int frame, int head, int window) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(from), "r"(0),
                 "r"(frame), "r"(head), "r"(window)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// ---- wgmma

__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// Keeps the compiler from moving accesses to registers that a product in flight uses.
template <int COUNT> __device__ __forceinline__ void hold(float (&numbers)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(numbers[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void hold(u32 (&words)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(words[i])::"memory");
}

// Describes rows of 128 bytes in shared memory with the 128-byte swizzle, in groups of eight rows.
__device__ __forceinline__ u64 matrix_at(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

#define EIGHT(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])

// scores (+)= queries keys^T: 64 by 128, over 16 numbers of the head.
__device__ __forceinline__ void multiply_keys(float (&scores)[64], u64 queries, u64 keys, int add) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, adds, 1, 1, 0, 0;\n}"
        : EIGHT(scores, 0), EIGHT(scores, 8), EIGHT(scores, 16), EIGHT(scores, 24), EIGHT(scores, 32), EIGHT(scores, 40),
          EIGHT(scores, 48), EIGHT(scores, 56)
        : "l"(queries), "l"(keys), "r"(add));
}

// sums (+)= probabilities values: 64 by 64, over 16 frames; probabilities are in registers.
__device__ __forceinline__ void multiply_values(float (&sums)[32], const u32* weights, u64 values, int add) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n}"
        : EIGHT(sums, 0), EIGHT(sums, 8), EIGHT(sums, 16), EIGHT(sums, 24)
        : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "l"(values), "r"(add));
}

__device__ __forceinline__ void begin_scores(float (&scores)[64], u64 queries, u64 keys) {
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) multiply_keys(scores, queries + 2 * k, keys + 2 * k, k > 0);
    products_commit();
}

__device__ __forceinline__ void begin_sums(float (&sums)[32], u32 (&weights)[32], u64 values, int add) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) multiply_values(sums, weights + 4 * k, values + 128 * k, k > 0 || add);
    products_commit();
}

// ---- softmax. A thread has the scores of two rows, [tile of 8 frames][row][two frames].

__device__ __forceinline__ void mask_beyond(float (&scores)[64], int valid) {
    int column = (threadIdx.x & 3) * 2;
#pragma unroll
    for (int tile = 0; tile < 16; tile++) {
        if (8 * tile + column >= valid) scores[4 * tile] = scores[4 * tile + 2] = NEGATIVE_INFINITY;
        if (8 * tile + column + 1 >= valid) scores[4 * tile + 1] = scores[4 * tile + 3] = NEGATIVE_INFINITY;
    }
}

__device__ __forceinline__ float row_max(const float (&scores)[64], int row) {
    float one = scores[2 * row], other = scores[2 * row + 1];
#pragma unroll
    for (int tile = 1; tile < 16; tile++) {
        one = fmaxf(one, scores[4 * tile + 2 * row]);
        other = fmaxf(other, scores[4 * tile + 2 * row + 1]);
    }
    one = fmaxf(one, other);
    one = fmaxf(one, __shfl_xor_sync(~0u, one, 1));
    return fmaxf(one, __shfl_xor_sync(~0u, one, 2));
}

// The powers of two of the scores, relative to the references; their sums are added to `totals`.
__device__ __forceinline__ void exponentials(float (&scores)[64], float scale, const float (&references)[2], float (&totals)[2]) {
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < 64; i++) {
        scores[i] = exp2_approx(fmaf(scores[i], scale, -references[i >> 1 & 1]));
        sums[i & 3] += scores[i];
    }
    totals[0] += sums[0] + sums[1];
    totals[1] += sums[2] + sums[3];
}

__device__ __forceinline__ void round_weights(const float (&scores)[64], u32 (&weights)[32]) {
#pragma unroll
    for (int i = 0; i < 32; i++) weights[i] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
}

// ---- output

// Where 16 bytes of a row lie in a tile with the 128-byte swizzle.
__device__ __forceinline__ u32 swizzled(u32 tile, int row, int piece) { return tile + row * ROW_BYTES + ((piece ^ (row & 7)) << 4); }

__device__ __forceinline__ void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// A warp's 16 rows of sums, divided by their totals, into the tile.
__device__ __forceinline__ void store_rows(const float (&sums)[32], const float (&totals)[2], u32 tile, int first_row) {
    int lane = threadIdx.x & 31, matrix = lane >> 3, row = first_row + (matrix & 1) * 8 + (lane & 7);
    float one = 1.f / totals[0], other = 1.f / totals[1];
#pragma unroll
    for (int piece = 0; piece < 8; piece += 2) {
        const float* at = sums + 4 * piece;
        store_matrices(swizzled(tile, row, piece + (matrix >> 1)), pack_bf16(at[0] * one, at[1] * one),
                       pack_bf16(at[2] * other, at[3] * other), pack_bf16(at[4] * one, at[5] * one), pack_bf16(at[6] * other, at[7] * other));
    }
}

// One row by a whole warp with a running maximum, into the tile.
__device__ __noinline__ void store_row_again(const u16* window, u64 pitch, int frames, int frame, float scale, u32 tile, int row) {
    int lane = threadIdx.x & 31, width = (int)(pitch / 3);
    const u16 *query = window + frame * pitch + 2 * lane, *keys = window + width + 2 * lane, *values = keys + width;
    float x = from_bf16(query[0]) * scale, y = from_bf16(query[1]) * scale;
    float top = NEGATIVE_INFINITY, total = 0.f, first = 0.f, second = 0.f;
    for (int i = 0; i < frames; i++, keys += pitch, values += pitch) {
        float score = warp_sum(x * from_bf16(keys[0]) + y * from_bf16(keys[1]));
        float higher = fmaxf(top, score), keep = exp2_approx(top - higher), weight = exp2_approx(score - higher);
        top = higher;
        total = total * keep + weight;
        first = first * keep + weight * from_bf16(values[0]);
        second = second * keep + weight * from_bf16(values[1]);
    }
    u32 address = swizzled(tile, row, lane >> 2) + (lane & 3) * 4;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(pack_bf16(first / total, second / total)) : "memory");
}

struct Sizes {
    int frames, heads, tiles_of_queries, tiles;
};

// Which queries a tile has.
struct Place {
    int frame, head, window;

    __device__ __forceinline__ Place(const Sizes& sizes, int tile) {
        int of_head = tile / sizes.tiles_of_queries;
        frame = tile % sizes.tiles_of_queries * GROUPS * TILE;
        head = of_head % sizes.heads;
        window = of_head / sizes.heads;
    }
};

struct Maps {
    TensorMap queries, keys, values, out;
};

__device__ __forceinline__ void produce(const Maps& maps, const Sizes& sizes, u32 base, Ring keys, Ring values, u32 queries_full, u32 queries_empty) {
    int blocks = (sizes.frames + KEYS - 1) / KEYS;
    u32 phase = 1;
    auto load = [&](Ring& ring, u32 stages, const TensorMap* map, const Place& place, int block) {
        barrier_wait(ring.empty_at(), ring.phase ^ 1);
        barrier_expect(ring.full_at(), STAGE_BYTES);
        copy_in(stages + ring.stage * STAGE_BYTES, map, ring.full_at(), block * KEYS, place.head, place.window);
        ring.next();
    };
    // The order of blocks: the last one first.
    auto block_at = [&](int step) { return step == 0 ? blocks - 1 : step - 1; };
    for (int tile = blockIdx.x; tile < sizes.tiles; tile += gridDim.x, phase ^= 1) {
        Place place(sizes, tile);
        load(keys, base + KEYS_AT, &maps.keys, place, block_at(0));
        for (int group = 0; group < GROUPS; group++) {
            barrier_wait(queries_empty + 8 * group, phase);
            barrier_expect(queries_full + 8 * group, TILE_BYTES);
            copy_in(base + QUERIES_AT + group * TILE_BYTES, &maps.queries, queries_full + 8 * group, place.frame + group * TILE, place.head,
                    place.window);
        }
        for (int step = 1; step < blocks; step++) {
            load(keys, base + KEYS_AT, &maps.keys, place, block_at(step));
            load(values, base + VALUES_AT, &maps.values, place, block_at(step - 1));
        }
        load(values, base + VALUES_AT, &maps.values, place, block_at(blocks - 1));
    }
}

__device__ __forceinline__ void consume(const Maps& maps, const Sizes& sizes, const u16* qkv, float scale, u32 base, Ring keys, Ring values,
                                        u32 queries_full, u32 queries_empty) {
    int group = threadIdx.x >> 7, thread = threadIdx.x & 127, lane = thread & 31, warp = thread >> 5;
    int blocks = (sizes.frames + KEYS - 1) / KEYS;
    u64 pitch = (u64)3 * sizes.heads * HEAD, queries = matrix_at(base + QUERIES_AT + group * TILE_BYTES);
    u32 out = base + OUT_AT + group * TILE_BYTES, phase = 0;
    auto key_block = [&]() { return matrix_at(base + KEYS_AT + keys.stage * STAGE_BYTES); };
    auto value_block = [&]() { return matrix_at(base + VALUES_AT + values.stage * STAGE_BYTES); };
    auto release = [&](Ring& ring) {
        if (lane == 0) barrier_arrive(ring.empty_at());
        ring.next();
    };
    auto release_queries = [&]() {
        if (lane == 0) barrier_arrive(queries_empty + 8 * group);
    };
    if (group == GROUPS - 1) GIVE_TURN(0);
    for (int tile = blockIdx.x; tile < sizes.tiles; tile += gridDim.x, phase ^= 1) {
        Place place(sizes, tile);
        float scores[64], sums[32], references[2], totals[2] = {};
        u32 weights[32];
        barrier_wait(queries_full + 8 * group, phase);
        barrier_wait(keys.full_at(), keys.phase);
        products_fence();
        begin_scores(scores, queries, key_block());
        products_wait<0>();
        hold(scores);
        release(keys);
        if (blocks == 1) release_queries();
        mask_beyond(scores, sizes.frames - (blocks - 1) * KEYS);
        references[0] = row_max(scores, 0) * scale;
        references[1] = row_max(scores, 1) * scale;
        exponentials(scores, scale, references, totals);
        round_weights(scores, weights);
#pragma unroll 1
        for (int step = 1; step < blocks; step++) {
            barrier_wait(keys.full_at(), keys.phase);
            MY_TURN(group);
            hold(scores);
            hold(weights);
            products_fence();
            begin_scores(scores, queries, key_block());
            barrier_wait(values.full_at(), values.phase);
            begin_sums(sums, weights, value_block(), step > 1);
            GIVE_TURN((group + 1) % GROUPS);
            products_wait<1>();
            hold(scores);
            release(keys);
            if (step == blocks - 1) release_queries();
            exponentials(scores, scale, references, totals);
            products_wait<0>();
            hold(sums);
            hold(weights);
            release(values);
            round_weights(scores, weights);
        }
        barrier_wait(values.full_at(), values.phase);
        hold(weights);
        products_fence();
        begin_sums(sums, weights, value_block(), blocks > 1);
        products_wait<0>();
        hold(sums);
        release(values);

#pragma unroll
        for (int row = 0; row < 2; row++) {
            totals[row] += __shfl_xor_sync(~0u, totals[row], 1);
            totals[row] += __shfl_xor_sync(~0u, totals[row], 2);
        }
        // The tile of the rows before has been copied out.
        if (thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        MEET_GROUP(group);
        store_rows(sums, totals, out, warp * 16);
        u32 again[2] = {__ballot_sync(~0u, !(totals[0] < OVERFLOWED)), __ballot_sync(~0u, !(totals[1] < OVERFLOWED))};
        if (again[0] | again[1]) {
            const u16* window = qkv + (u64)place.window * sizes.frames * pitch + place.head * HEAD;
            __syncwarp();
#pragma unroll 1
            for (int row = 0; row < 16; row++) {
                int in_tile = warp * 16 + row, frame = place.frame + group * TILE + in_tile;
                if (again[row >> 3] >> ((row & 7) * 4) & 1 && frame < sizes.frames)
                    store_row_again(window, pitch, sizes.frames, frame, scale, out, in_tile);
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        MEET_GROUP(group);
        if (thread == 0) copy_out(&maps.out, out, place.frame + group * TILE, place.head, place.window);
    }
    if (group == 0) MY_TURN(0);
    if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// qkv: [window][frame][query, key, value][head][64], out: [window][frame][head][64]; the maps have rows of one head. `scale` includes
// log2(e). Grid: as many blocks as multiprocessors, or as tiles.
extern "C" __global__ void __launch_bounds__((GROUPS + 1) * 128, 1) encoder_attention_hopper(
    const __grid_constant__ Maps maps, const __grid_constant__ Sizes sizes, const u16* qkv, float scale) {
    extern __shared__ u8 memory[];
    u32 base = ((u32)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
    u32 barriers = base + BARRIERS_AT;
    u32 queries_full = barriers, queries_empty = queries_full + 8 * GROUPS, rings = queries_empty + 8 * GROUPS;
    Ring keys = {rings, rings + 8 * STAGES, 0, 0}, values = {rings + 16 * STAGES, rings + 24 * STAGES, 0, 0};
    if (threadIdx.x == 0) {
        // One lane of each warp says that it has read.
        for (int i = 0; i < GROUPS; i++) {
            barrier_init(queries_full + 8 * i, 1);
            barrier_init(queries_empty + 8 * i, 4);
        }
        for (int i = 0; i < STAGES; i++) {
            barrier_init(keys.full + 8 * i, 1);
            barrier_init(keys.empty + 8 * i, 4 * GROUPS);
            barrier_init(values.full + 8 * i, 1);
            barrier_init(values.empty + 8 * i, 4 * GROUPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    take_turn();
    if (threadIdx.x >> 7 == GROUPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x == GROUPS * 128) produce(maps, sizes, base, keys, values, queries_full, queries_empty);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
        consume(maps, sizes, qkv, scale, base, keys, values, queries_full, queries_empty);
    }
}
