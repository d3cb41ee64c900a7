// Kernels over rows: unfolding of convolutions, layer norm, embeddings.

// Rows of a convolution of width 3 as rows of a product: row `t` is the frames `stride*t - 1 .. stride*t + 1`, zero beyond the ends.
// `from` has `frames_in` frames of `channels` a window, in f32 (FLOAT) or bf16. A block a row.
template <typename Number>
__device__ __forceinline__ void unfold(const Number* from, u16* to, int frames_in, int frames_out, int channels, int stride) {
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

// Layer norm of rows of the residual stream, a warp a row, the row in registers: widths up to 2048.
// With `rows_of` the output row `r` is the norm of the row `rows_of[r]`. Sets `*flag` where an output is not finite.
extern "C" __global__ void __launch_bounds__(128)
layer_norm(const float* stream, const float* gain, const float* bias, u16* to, const u32* rows_of, u32* flag, int rows, int width) {
    const int MOST = 16;
    int lane = threadIdx.x & 31;
    int row = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (row >= rows) return;
    u64 from = rows_of ? rows_of[row] : row;
    float4 numbers[MOST];
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        int column = (i * 32 + lane) * 4;
        if (column < width) {
            numbers[i] = *(const float4*)(stream + from * width + column);
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
            *(uint2*)(to + (u64)row * width + column) = make_uint2(pack_bf16(x, y), pack_bf16(z, w));
        }
    }
    if (!finite && flag) *flag = 1;
}

// stream[row] = embedding[token] + positions[position]. A block an entry.
extern "C" __global__ void embed_tokens(const Entry* entries, const u16* embedding, const float* positions, float* stream, int width) {
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
