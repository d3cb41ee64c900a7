// Products of few rows: `y = x W^T + b`, where reading the weights is all that takes time.
//
// A block of eight warps has 16 outputs; the warps share the sum over the inputs, 32 at a time in turns, and add up in shared memory in
// a fixed order. The tensor cores' operands are 16 outputs by 16 inputs and 16 inputs by 8 rows. Which input is which of the 16 does not
// matter as long as both operands agree, so every thread loads 16 bytes of a weight row, and of a row of x at the same place: two
// products. That is right for up to eight rows, and for twice or four times as many with more accumulators.

#define WARPS 8
#define OUTPUTS 16
// Inputs of a step: four threads of a row have eight each.
#define STEP 32
// Steps whose weights are on their way at once.
#define DEEP 5

enum { BF16, GELU, F32, ADD_F32 };

struct Layer {
    const u16* weight;
    // Of the outputs' type; null where zero.
    const void* bias;
    int outputs;
    int inputs;
};

// GELU in its tanh form.
__device__ __forceinline__ float gelu(float x) {
    float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    // tanh(u) = 1 - 2 / (exp(2u) + 1)
    return x * (1.f - 1.f / (exp2_approx(2.f * LOG2_E * inner) + 1.f));
}

__device__ __forceinline__ uint4 load_weights(const u16* from) {
    uint4 bits;
    // Read once: they need no place in the cache.
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w) : "l"(from));
    return bits;
}

// Weights of two rows of outputs, eight apart, at a step.
struct Weights {
    uint4 low, high;
};

// Where x comes from: rows in memory, or normed rows in shared memory. Rows beyond the last are the last one again; their sums are not
// stored.
struct Rows {
    const u16* from;
    u32 pitch;
    int count;

    __device__ __forceinline__ uint4 at(int row, int input) const { return *(const uint4*)(from + (u64)min(row, count - 1) * pitch + input); }
};

template <int TILES> struct Product {
    const Layer& layer;
    int lane, warp, first;
    const u16 *low, *high;
    float sums[TILES][4];

    __device__ __forceinline__ Product(const Layer& layer)
        : layer(layer), lane(threadIdx.x & 31), warp(threadIdx.x >> 5), first(blockIdx.x * OUTPUTS), sums() {
        int row = first + (lane >> 2);
        low = layer.weight + (u64)min(row, layer.outputs - 1) * layer.inputs + (lane & 3) * 8;
        high = layer.weight + (u64)min(row + 8, layer.outputs - 1) * layer.inputs + (lane & 3) * 8;
    }

    __device__ __forceinline__ Weights load(int step) const {
        int input = step * STEP;
        return input < layer.inputs ? Weights{load_weights(low + input), load_weights(high + input)} : Weights{};
    }

    __device__ __forceinline__ void add(const Weights& weights, const Rows& rows, int step) {
        if (step * STEP >= layer.inputs) return;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            uint4 x = rows.at(tile * 8 + (lane >> 2), step * STEP + (lane & 3) * 8);
            u32 one[4] = {weights.low.x, weights.high.x, weights.low.y, weights.high.y};
            u32 other[4] = {weights.low.z, weights.high.z, weights.low.w, weights.high.w};
            multiply_add(sums[tile], one, x.x, x.y);
            multiply_add(sums[tile], other, x.z, x.w);
        }
    }

    // All steps of this warp; the first ones' weights were loaded.
    __device__ __forceinline__ void run(Weights (&weights)[DEEP], const Rows& rows) {
        for (int step = warp; step * STEP < layer.inputs; step += DEEP * WARPS) {
#pragma unroll
            for (int i = 0; i < DEEP; i++) {
                Weights now = weights[i];
                weights[i] = load(step + (DEEP + i) * WARPS);
                add(now, rows, step + i * WARPS);
            }
        }
    }

    __device__ __forceinline__ void begin(Weights (&weights)[DEEP]) const {
#pragma unroll
        for (int i = 0; i < DEEP; i++) weights[i] = load(warp + i * WARPS);
    }

    // Adds up the warps' sums and stores them.
    __device__ __forceinline__ void store(void* to, int rows, int output) {
        __shared__ float parts[WARPS][TILES * 8][OUTPUTS + 1];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) parts[warp][tile * 8 + (lane & 3) * 2 + (i & 1)][(lane >> 2) + (i >> 1) * 8] = sums[tile][i];
        __syncthreads();
        for (int i = threadIdx.x; i < TILES * 8 * OUTPUTS; i += WARPS * 32) {
            int row = i / OUTPUTS, column = first + i % OUTPUTS;
            if (row >= rows || column >= layer.outputs) continue;
            float sum = 0.f;
#pragma unroll
            for (int part = 0; part < WARPS; part++) sum += parts[part][row][i % OUTPUTS];
            u64 place = (u64)row * layer.outputs + column;
            if (output == F32 || output == ADD_F32) {
                if (layer.bias) sum += ((const float*)layer.bias)[column];
                float* numbers = (float*)to;
                numbers[place] = output == ADD_F32 ? numbers[place] + sum : sum;
            } else {
                if (layer.bias) sum += from_bf16(((const u16*)layer.bias)[column]);
                ((u16*)to)[place] = to_bf16(output == GELU ? gelu(sum) : sum);
            }
        }
    }
};

template <int TILES> __device__ __forceinline__ void linear_few(const u16* x, const Layer& layer, void* to, int rows, int output) {
    let_next_begin();
    Product<TILES> product(layer);
    Weights weights[DEEP];
    product.begin(weights);
    wait_for_previous();
    product.run(weights, {x, (u32)layer.inputs, rows});
    product.store(to, rows, output);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32) linear_8(const u16* x, Layer layer, void* to, int rows, int output) {
    linear_few<1>(x, layer, to, rows, output);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32) linear_16(const u16* x, Layer layer, void* to, int rows, int output) {
    linear_few<2>(x, layer, to, rows, output);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32) linear_32(const u16* x, Layer layer, void* to, int rows, int output) {
    linear_few<4>(x, layer, to, rows, output);
}

// The product of the layer norm of up to eight rows of the residual stream: every block norms all of them, a warp a row, while its first
// weights are on their way. Shared memory: the normed rows, 64 bytes apart, so that eight threads which read at once find other banks.
extern "C" __global__ void __launch_bounds__(WARPS * 32, 2)
norm_linear_8(const float* stream, const float* gain, const float* bias, Layer layer, void* to, int rows, int output) {
    extern __shared__ __align__(16) u16 normed[];
    u32 pitch = layer.inputs + 32;
    let_next_begin();
    Product<1> product(layer);
    Weights weights[DEEP];
    product.begin(weights);
    wait_for_previous();
    int row = product.warp;
    if (row < rows) {
        u16* out = normed + row * pitch;
        norm_row(stream + (u64)row * layer.inputs, gain, bias, layer.inputs, [&](int column, uint2 four) { *(uint2*)(out + column) = four; });
    }
    __syncthreads();
    product.run(weights, {normed, pitch, rows});
    product.store(to, rows, output);
}
