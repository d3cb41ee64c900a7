// The next tokens of each row, from its logits and under the rules of decoding: what comes back to the host is tokens and probabilities.
//
// The rules are those of `hark_whisper::logits`: text tokens and timestamps are two kinds; if the timestamps together are likelier than
// every text token, one of them must be next.

//
// Two kernels: many blocks find sums and the likeliest tokens of parts of the vocabulary (`scan_logits`), then a block a query puts
// them together (`answer_queries`).

#define THREADS 512
#define MOST_BEST 64

// Text in 15 parts, timestamps in the last one.
#define PARTS 16
#define SCAN_THREADS 256
// Tokens of a thread of `scan_logits`.
#define MINE 16

enum { TEXT = 1, END = 2, AT_START = 4, TIMESTAMPS = 8, NO_SPEECH = 16, LANGUAGES = 32, SAMPLE = 64 };

struct Query {
    // The row of the logits; no query where it is NO_ENTRY.
    u32 row;
    u32 flags;
    // Timestamps first..last.
    u32 first;
    u32 last;
    u32 top_k;
    float temperature;
    float uniform;
    u32 unused;
};

struct Tokens {
    u32 vocabulary;
    u32 end;
    u32 first_timestamp;
    u32 no_speech;
    u32 languages;
};

// A log-sum-exp in two parts: the maximum, and the sum of exponentials relative to it.
struct LogSum {
    float top;
    float sum;
};

__device__ __forceinline__ LogSum joined(LogSum one, LogSum other) {
    float top = fmaxf(one.top, other.top);
    if (top == NEGATIVE_INFINITY) return {top, 0.f};
    return {top, one.sum * __expf(one.top - top) + other.sum * __expf(other.top - top)};
}

__device__ __forceinline__ void add(LogSum& to, float score) {
    if (score > to.top) {
        to.sum = to.sum * __expf(to.top - score) + 1.f;
        to.top = score;
    } else if (score > NEGATIVE_INFINITY) {
        to.sum += __expf(score - to.top);
    }
}

// Over a block of `WARPS` warps, in the same order each time.
template <int WARPS> __device__ LogSum block_log_sum(LogSum mine, LogSum* shared) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1)
        mine = joined(mine, {__shfl_xor_sync(~0u, mine.top, lanes), __shfl_xor_sync(~0u, mine.sum, lanes)});
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = mine;
    __syncthreads();
    LogSum all = shared[0];
    for (int i = 1; i < WARPS; i++) all = joined(all, shared[i]);
    __syncthreads();
    return all;
}

// Orders scores, and of equal ones the lower token first.
__device__ __forceinline__ u64 order(float score, u32 token) {
    u32 bits = __float_as_uint(score);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)bits << 32 | (0xffffffffu - token);
}

// The score that was ordered.
__device__ __forceinline__ float score_of_order(u64 key) {
    u32 bits = (u32)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

__device__ __forceinline__ u64 warp_max(u64 mine) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1) {
        u64 other = __shfl_xor_sync(~0u, mine, lanes);
        mine = other > mine ? other : mine;
    }
    return mine;
}

template <int WARPS> __device__ u64 block_max(u64 mine, u64* shared) {
    mine = warp_max(mine);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = mine;
    __syncthreads();
    u64 all = shared[0];
    for (int i = 1; i < WARPS; i++) all = shared[i] > all ? shared[i] : all;
    __syncthreads();
    return all;
}

// What `scan_logits` finds in a part: the sum over its tokens and the likeliest ones, in order, zero where there is no other.
struct Part {
    LogSum sum;
    u64 best[MOST_BEST];
};

// Tokens from..to of one kind that a query allows.
struct Range {
    u32 from, to;
};

__device__ __forceinline__ Range text_of(const Query& query, const Tokens& tokens) {
    return {query.flags & TEXT ? 0 : tokens.end, tokens.end + (query.flags & END ? 1 : 0)};
}

__device__ __forceinline__ Range timestamps_of(const Query& query, const Tokens& tokens) {
    if (!(query.flags & TIMESTAMPS)) return {0, 0};
    return {max(query.first, tokens.first_timestamp), min(query.last, tokens.vocabulary)};
}

// Grid: parts, queries.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
scan_logits(const Query* queries, const float* logits, u64 pitch, const u8* marks, Tokens tokens, Part* parts) {
    const int WARPS = SCAN_THREADS / 32;
    __shared__ LogSum log_sums[WARPS];
    __shared__ u64 keys[WARPS];
    take_turn();
    Query query = queries[blockIdx.y];
    bool samples = query.flags & SAMPLE;
    if (query.row == NO_ENTRY || query.top_k == 0 && !samples) return;
    const float* scores = logits + query.row * pitch;
    Part* part = parts + (u64)blockIdx.y * PARTS + blockIdx.x;
    Range range = timestamps_of(query, tokens);
    if (blockIdx.x < PARTS - 1) {
        range = text_of(query, tokens);
        u32 share = (range.to - range.from + PARTS - 2) / (PARTS - 1);
        range.from = min(range.from + blockIdx.x * share, range.to);
        range.to = min(range.from + share, range.to);
    }
    u8 suppressed = query.flags & AT_START ? 3 : 1;
    float mine[MINE];
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        u32 token = range.from + threadIdx.x + i * SCAN_THREADS;
        mine[i] = token < range.to && !(marks[token] & suppressed) ? scores[token] : NEGATIVE_INFINITY;
    }
    // The likeliest token of this thread, of equal ones the first: tokens grow with i.
    float top;
    int at;
    auto find_top = [&]() {
        top = NEGATIVE_INFINITY;
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (mine[i] > top) {
                top = mine[i];
                at = i;
            }
    };
    find_top();
    LogSum sum = {top, 0.f};
#pragma unroll
    for (int i = 0; i < MINE; i++)
        if (mine[i] > NEGATIVE_INFINITY) sum.sum += __expf(mine[i] - top);
    sum = block_log_sum<WARPS>(sum, log_sums);
    if (threadIdx.x == 0) part->sum = sum;
    if (samples) return;
    for (u32 k = 0; k < query.top_k; k++) {
        u64 key = top > NEGATIVE_INFINITY ? order(top, range.from + threadIdx.x + at * SCAN_THREADS) : 0;
        u64 best = block_max<WARPS>(key, keys);
        if (threadIdx.x == 0) part->best[k] = best;
        // Where there is no other, whoever reads stops.
        if (best == 0) return;
        if (key != best) continue;
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (i == at) mine[i] = NEGATIVE_INFINITY;
        find_top();
    }
}

// A block a query. `marks[token]` has bit 0 for tokens that never come, bit 1 for those that never come first.
// Out: `answers`: the flag and three unused words, then for each query `most` tokens and `most` log-probabilities;
// `others` [query][1 + languages]: no speech, then the languages.
extern "C" __global__ void __launch_bounds__(THREADS) answer_queries(
    const Query* queries, const float* logits, u64 pitch, const u8* marks, const u32* languages, Tokens tokens, const Part* parts,
    const u32* flag, int most, u32* answers, float* others) {
    const int WARPS = THREADS / 32;
    __shared__ LogSum log_sums[WARPS];
    __shared__ double weights[THREADS];
    __shared__ u32 drawn;
    take_turn();
    if (blockIdx.x == 0 && threadIdx.x == 0) answers[0] = *flag;
    Query query = queries[blockIdx.x];
    if (query.row == NO_ENTRY) return;
    const float* scores = logits + query.row * pitch;
    u32* best = answers + 4 + (u64)blockIdx.x * 2 * most;
    float* log_probs = (float*)(best + most);
    others += (u64)blockIdx.x * (1 + tokens.languages);
    parts += (u64)blockIdx.x * PARTS;

    if (query.flags & NO_SPEECH && tokens.no_speech != NO_ENTRY) {
        LogSum all = {NEGATIVE_INFINITY, 0.f};
        for (u32 token = threadIdx.x; token < tokens.vocabulary; token += THREADS) add(all, scores[token]);
        all = block_log_sum<WARPS>(all, log_sums);
        if (threadIdx.x == 0) others[0] = __expf(scores[tokens.no_speech] - all.top) / all.sum;
    }
    if (query.flags & LANGUAGES) {
        LogSum all = {NEGATIVE_INFINITY, 0.f};
        for (u32 i = threadIdx.x; i < tokens.languages; i += THREADS) add(all, scores[languages[i]]);
        all = block_log_sum<WARPS>(all, log_sums);
        for (u32 i = threadIdx.x; i < tokens.languages; i += THREADS) others[1 + i] = __expf(scores[languages[i]] - all.top) / all.sum;
    }
    bool samples = query.flags & SAMPLE;
    if (query.top_k == 0 && !samples) return;

    LogSum text = parts[0].sum, times = parts[PARTS - 1].sum;
    for (int i = 1; i < PARTS - 1; i++) text = joined(text, parts[i].sum);
    bool must_be_timestamp = query.flags & (TEXT | END) && times.top + __logf(times.sum) > text.top;
    LogSum total = must_be_timestamp ? times : joined(text, times);
    float log_total = total.top + __logf(total.sum);

    if (samples) {
        u8 suppressed = query.flags & AT_START ? 3 : 1;
        auto score_of = [&](u32 token) { return marks[token] & suppressed ? NEGATIVE_INFINITY : scores[token]; };
        Range text = text_of(query, tokens), times = timestamps_of(query, tokens);
        // Neighbouring tokens belong to one thread, so that the cumulative distribution is in the order of tokens.
        u32 texts = must_be_timestamp ? 0 : text.to - text.from, count = texts + (times.to > times.from ? times.to - times.from : 0);
        u32 share = (count + THREADS - 1) / THREADS, from = min(threadIdx.x * share, count), to = min(from + share, count);
        auto token_at = [&](u32 index) { return index < texts ? text.from + index : times.from + (index - texts); };
        auto weight_of = [&](u32 token) { return (double)__expf((score_of(token) - total.top) / query.temperature); };
        double mine = 0.0;
        for (u32 index = from; index < to; index++) mine += weight_of(token_at(index));
        weights[threadIdx.x] = mine;
        if (threadIdx.x == 0) drawn = NO_ENTRY;
        __syncthreads();
        double all = 0.0, before = 0.0;
        for (int i = 0; i < THREADS; i++) {
            if (i == threadIdx.x) before = all;
            all += weights[i];
        }
        double wanted = (double)query.uniform * all;
        if (mine > 0.0 && before <= wanted && wanted < before + mine) {
            double sum = before;
            u32 last = NO_ENTRY;
            for (u32 index = from; index < to; index++) {
                double weight = weight_of(token_at(index));
                if (weight == 0.0) continue;
                last = token_at(index);
                sum += weight;
                if (wanted < sum) break;
            }
            drawn = last;
        }
        __syncthreads();
        if (drawn == NO_ENTRY && threadIdx.x == 0) {
            // Rounding left it beyond the end: the last token that can be.
            for (u32 index = count; index-- > 0;)
                if (weight_of(token_at(index)) > 0.0) {
                    drawn = token_at(index);
                    break;
                }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            best[0] = drawn;
            log_probs[0] = drawn == NO_ENTRY ? NEGATIVE_INFINITY : score_of(drawn) - log_total;
        }
        return;
    }

    // A warp joins the parts, of which each is in order.
    if (threadIdx.x >= 32) return;
    int lane = threadIdx.x;
    bool takes_part = lane < PARTS && (!must_be_timestamp || lane == PARTS - 1);
    const u64* list = parts[takes_part ? lane : 0].best;
    u64 mine = takes_part ? list[0] : 0;
    u32 next = 1;
    for (u32 k = 0; k < query.top_k; k++) {
        u64 top = warp_max(mine);
        if (lane == 0) {
            best[k] = top ? 0xffffffffu - (u32)top : NO_ENTRY;
            log_probs[k] = top ? score_of_order(top) - log_total : NEGATIVE_INFINITY;
        }
        if (top && mine == top) {
            mine = next < query.top_k ? list[next] : 0;
            next++;
        }
    }
}
