// What alignment heads agree on, from their scores, for the times of words (`hark-whisper/src/words.rs`): softmax over frames, values of a
// frame over rows to mean 0 and deviation 1, medians over 7 frames, the mean over heads. Every kernel has a layer of the grid for a text.

struct Text {
    u32 rows;
    u32 leading;
    u32 frames;
    // Where its scores begin, and its result.
    u32 scores;
    u32 to;
};

// scores[head][row][frame] in place. Grid: rows, heads, texts; 128 threads.
extern "C" __global__ void __launch_bounds__(128) softmax_scores(const Text* texts, float* scores) {
    take_turn();
    __shared__ float parts[2][4];
    Text text = texts[blockIdx.z];
    if (blockIdx.x >= text.rows || text.frames == 0) return;
    float* row = scores + text.scores + ((u64)blockIdx.y * text.rows + blockIdx.x) * text.frames;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float top = NEGATIVE_INFINITY, total = 0.f;
    for (u32 i = threadIdx.x; i < text.frames; i += 128) top = fmaxf(top, row[i]);
    top = warp_max(top);
    if (lane == 0) parts[0][warp] = top;
    __syncthreads();
    top = fmaxf(fmaxf(parts[0][0], parts[0][1]), fmaxf(parts[0][2], parts[0][3]));
    for (u32 i = threadIdx.x; i < text.frames; i += 128) {
        float weight = exp2_approx((row[i] - top) * LOG2_E);
        row[i] = weight;
        total += weight;
    }
    total = warp_sum(total);
    if (lane == 0) parts[1][warp] = total;
    __syncthreads();
    float scale = 1.f / ((parts[1][0] + parts[1][1]) + (parts[1][2] + parts[1][3]));
    for (u32 i = threadIdx.x; i < text.frames; i += 128) row[i] *= scale;
}

// Mean and inverse deviation of each frame over the rows: stats[text][head][frame of `most`]. Grid: frames by 128, heads, texts.
extern "C" __global__ void __launch_bounds__(128) frame_stats(const Text* texts, const float* scores, float2* stats, int most) {
    take_turn();
    Text text = texts[blockIdx.z];
    u32 frame = blockIdx.x * 128 + threadIdx.x;
    if (frame >= text.frames) return;
    const float* column = scores + text.scores + (u64)blockIdx.y * text.rows * text.frames + frame;
    float sum = 0.f, squares = 0.f;
    for (u32 row = 0; row < text.rows; row++) sum += column[(u64)row * text.frames];
    float mean = sum / text.rows;
    for (u32 row = 0; row < text.rows; row++) {
        float apart = column[(u64)row * text.frames] - mean;
        squares += apart * apart;
    }
    // A frame that all rows attend to alike says nothing.
    float scale = squares > 0.f ? rsqrtf(squares / text.rows) : 0.f;
    stats[((u64)blockIdx.z * gridDim.y + blockIdx.y) * most + frame] = make_float2(mean, scale);
}

__device__ __forceinline__ void exchange(float& low, float& high) {
    float a = low, b = high;
    low = fminf(a, b);
    high = fmaxf(a, b);
}

// Grid: frames by 128, rows behind the leading ones, texts.
extern "C" __global__ void __launch_bounds__(128)
agree(const Text* texts, const float* scores, const float2* stats, float* to, int heads, int most) {
    take_turn();
    Text text = texts[blockIdx.z];
    int frames = text.frames, frame = blockIdx.x * 128 + threadIdx.x;
    if (frame >= frames || text.leading + blockIdx.y >= text.rows) return;
    u64 row = text.leading + blockIdx.y;
    float sum = 0.f;
    for (int head = 0; head < heads; head++) {
        const float* from = scores + text.scores + ((u64)head * text.rows + row) * frames;
        const float2* of_head = stats + ((u64)blockIdx.z * heads + head) * most;
        auto at = [&](int place) {
            place = place < 0 ? -place : place;
            place = place >= frames ? 2 * (frames - 1) - place : place;
            float2 stat = of_head[place];
            return (from[place] - stat.x) * stat.y;
        };
        if (frames <= 3) {
            sum += at(frame);
            continue;
        }
        float v[7];
#pragma unroll
        for (int i = 0; i < 7; i++) v[i] = at(frame + i - 3);
        exchange(v[0], v[5]), exchange(v[0], v[3]), exchange(v[1], v[6]), exchange(v[2], v[4]), exchange(v[0], v[1]);
        exchange(v[3], v[5]), exchange(v[2], v[6]), exchange(v[2], v[3]), exchange(v[3], v[6]), exchange(v[4], v[5]);
        exchange(v[1], v[4]), exchange(v[1], v[3]), exchange(v[3], v[4]);
        sum += v[3];
    }
    to[text.to + (u64)blockIdx.y * frames + frame] = sum / heads;
}
