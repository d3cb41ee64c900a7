// Kernels over rows: unfolding of convolutions, layer norm, embeddings.

// Rows of a convolution of width 3 as rows of a product: row `t` is the frames `stride*t - 1 .. stride*t + 1`, zero beyond the ends.
// `from` has `frames_in` frames of `channels` a window, in f32 (FLOAT) or bf16. A block a row.
template <typename Number>
__device__ __forceinline__ void unfold(const Number* from, u16* to, int frames_in, int frames_out, int channels, int stride) {
    take_turn();
    u64 row = blockIdx.x;
    u64 window = row / frames_out;
    int frame = (int)(row % frames_out) * stride - 1;
    for (int i = threadIdx.x; i < 3 * channels; i += blockDim.x) {
        int at = frame + i / channels;
        u16 bits = 0;
        if (at >= 0 && at < frames_in) {
            Number number = from[(window * frames_in + at) * channels + i % channels];
            if constexpr (sizeof(Number) == 4) bits = to_bf16(number); else bits = number;
        }
        to[row * 3 * channels + i] = bits;
    }
}

extern "C" __global__ void unfold_float(const float* from, u16* to, int frames_in, int frames_out, int channels, int stride) {
    unfold<float>(from, to, frames_in, frames_out, channels, stride);
}

extern "C" __global__ void unfold_bf16(const u16* from, u16* to, int frames_in, int frames_out, int channels, int stride) {
    unfold<u16>(from, to, frames_in, frames_out, channels, stride);
}

// stream[row] = convolved[row] + positions[row % frames]. A block a row; widths are multiples of 8.
extern "C" __global__ void add_positions(const u16* convolved, const float* positions, float* stream, int frames, int width) {
    take_turn();
    u64 row = blockIdx.x;
    const float* position = positions + (u64)(row % frames) * width;
    for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        float numbers[8];
        unpack8(*(const uint4*)(convolved + row * width + i), numbers);
#pragma unroll
        for (int k = 0; k < 8; k += 4) {
            float4 add = *(const float4*)(position + i + k);
            *(float4*)(stream + row * width + i + k) =
                make_float4(numbers[k] + add.x, numbers[k + 1] + add.y, numbers[k + 2] + add.z, numbers[k + 3] + add.w);
        }
    }
}

// Layer norm of rows of the residual stream, a warp a row, `blockDim.x / 32` rows a block.
// With `rows_of` the output row `r` is the norm of the row `rows_of[r]`. Sets `*flag` where an output is not finite.
extern "C" __global__ void __launch_bounds__(128)
layer_norm(const float* stream, const float* gain, const float* bias, u16* to, const u32* rows_of, u32* flag, int rows, int width) {
    take_turn();
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    u64 from = rows_of ? rows_of[row] : row;
    u16* out = to + (u64)row * width;
    bool finite = norm_row(stream + from * width, gain, bias, width, [&](int column, uint2 four) { *(uint2*)(out + column) = four; });
    if (!finite && flag) *flag = 1;
}

// The same with a block of 256 threads a row, for few rows: all that takes time there is waiting for memory.
extern "C" __global__ void __launch_bounds__(256)
layer_norm_few(const float* stream, const float* gain, const float* bias, u16* to, const u32* rows_of, u32* flag, int rows, int width) {
    const int MOST = 2, WARPS = 8;
    __shared__ float sums[2][WARPS];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float4 numbers[MOST], by[MOST], add[MOST];
    let_next_begin();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 256 + threadIdx.x) * 4;
        numbers[i] = by[i] = add[i] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (column < width) {
            by[i] = *(const float4*)(gain + column);
            add[i] = *(const float4*)(bias + column);
        }
    }
    wait_for_previous();
    u64 row = blockIdx.x, from = rows_of ? rows_of[row] : row;
    auto block_sum = [&](float mine, float* shared) {
        mine = warp_sum(mine);
        if (lane == 0) shared[warp] = mine;
        __syncthreads();
        float all = 0.f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) all += shared[i];
        return all;
    };
    float sum = 0.f, squares = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 256 + threadIdx.x) * 4;
        if (column < width) numbers[i] = *(const float4*)(stream + from * width + column);
        sum += (numbers[i].x + numbers[i].y) + (numbers[i].z + numbers[i].w);
    }
    float mean = block_sum(sum, sums[0]) / width;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if ((i * 256 + threadIdx.x) * 4 >= width) continue;
        float x = numbers[i].x - mean, y = numbers[i].y - mean, z = numbers[i].z - mean, w = numbers[i].w - mean;
        numbers[i] = make_float4(x, y, z, w);
        squares += (x * x + y * y) + (z * z + w * w);
    }
    float scale = rsqrtf(block_sum(squares, sums[1]) / width + 1e-5f);
    bool finite = is_finite(scale) && is_finite(mean);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 256 + threadIdx.x) * 4;
        if (column >= width) continue;
        float x = numbers[i].x * scale * by[i].x + add[i].x, y = numbers[i].y * scale * by[i].y + add[i].y;
        float z = numbers[i].z * scale * by[i].z + add[i].z, w = numbers[i].w * scale * by[i].w + add[i].w;
        finite &= is_finite(x) && is_finite(y) && is_finite(z) && is_finite(w);
        *(uint2*)(to + row * width + column) = make_uint2(pack_bf16(x, y), pack_bf16(z, w));
    }
    if (!finite && flag) *flag = 1;
}

// stream[row] = embedding[token] + positions[position]. A block an entry.
extern "C" __global__ void embed_tokens(const Entry* entries, const u16* embedding, const float* positions, float* stream, int width) {
    take_turn();
    Entry entry = entries[blockIdx.x];
    u64 row = blockIdx.x;
    for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        float numbers[8];
        unpack8(*(const uint4*)(embedding + (u64)entry.token * width + i), numbers);
        const float* position = positions + (u64)entry.position * width + i;
#pragma unroll
        for (int k = 0; k < 8; k++) stream[row * width + i + k] = numbers[k] + position[k];
    }
}
