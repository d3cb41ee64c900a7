// The next tokens of each row, from its logits and under the rules of decoding: what comes back to the host is tokens and probabilities.
//
// The rules are those of `hark_whisper::logits`: text tokens and timestamps are two kinds; if the timestamps together are likelier than
// every text token, one of them must be next.

#define THREADS 512
#define MOST_BEST 64

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

// Over the whole block, in the same order each time.
__device__ LogSum block_log_sum(LogSum mine, LogSum* shared) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1)
        mine = joined(mine, {__shfl_xor_sync(~0u, mine.top, lanes), __shfl_xor_sync(~0u, mine.sum, lanes)});
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = mine;
    __syncthreads();
    LogSum all = shared[0];
    for (int i = 1; i < THREADS / 32; i++) all = joined(all, shared[i]);
    __syncthreads();
    return all;
}

// Orders scores, and of equal ones the lower token first.
__device__ __forceinline__ u64 order(float score, u32 token) {
    u32 bits = __float_as_uint(score);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)bits << 32 | (0xffffffffu - token);
}

__device__ u64 block_max(u64 mine, u64* shared) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1) {
        u64 other = __shfl_xor_sync(~0u, mine, lanes);
        mine = other > mine ? other : mine;
    }
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = mine;
    __syncthreads();
    u64 all = shared[0];
    for (int i = 1; i < THREADS / 32; i++) all = shared[i] > all ? shared[i] : all;
    __syncthreads();
    return all;
}

// A block a query. `marks[token]` has bit 0 for tokens that never come, bit 1 for those that never come first.
// Out: `best` and `log_probs` [query][most], `others` [query][1 + languages]: no speech, then the languages.
extern "C" __global__ void __launch_bounds__(THREADS) answer_queries(
    const Query* queries, const float* logits, u64 pitch, const u8* marks, const u32* languages, Tokens tokens, int most, u32* best,
    float* log_probs, float* others) {
    __shared__ LogSum log_sums[THREADS / 32];
    __shared__ u64 keys[THREADS / 32];
    __shared__ double weights[THREADS];
    __shared__ u32 drawn;
    Query query = queries[blockIdx.x];
    if (query.row == NO_ENTRY) return;
    const float* scores = logits + query.row * pitch;
    best += (u64)blockIdx.x * most;
    log_probs += (u64)blockIdx.x * most;
    others += (u64)blockIdx.x * (1 + tokens.languages);

    if (query.flags & NO_SPEECH && tokens.no_speech != NO_ENTRY) {
        LogSum all = {NEGATIVE_INFINITY, 0.f};
        for (u32 token = threadIdx.x; token < tokens.vocabulary; token += THREADS) add(all, scores[token]);
        all = block_log_sum(all, log_sums);
        if (threadIdx.x == 0) others[0] = __expf(scores[tokens.no_speech] - all.top) / all.sum;
    }
    if (query.flags & LANGUAGES) {
        LogSum all = {NEGATIVE_INFINITY, 0.f};
        for (u32 i = threadIdx.x; i < tokens.languages; i += THREADS) add(all, scores[languages[i]]);
        all = block_log_sum(all, log_sums);
        for (u32 i = threadIdx.x; i < tokens.languages; i += THREADS) others[1 + i] = __expf(scores[languages[i]] - all.top) / all.sum;
    }
    bool samples = query.flags & SAMPLE;
    if (query.top_k == 0 && !samples) return;

    // The allowed tokens of both kinds.
    u32 text_from = query.flags & TEXT ? 0 : tokens.end, text_to = tokens.end + (query.flags & END ? 1 : 0);
    u32 times_from = 0, times_to = 0;
    if (query.flags & TIMESTAMPS) {
        times_from = max(query.first, tokens.first_timestamp);
        times_to = min(query.last, tokens.vocabulary);
    }
    u8 suppressed = query.flags & AT_START ? 3 : 1;
    auto score_of = [&](u32 token) { return marks[token] & suppressed ? NEGATIVE_INFINITY : scores[token]; };

    LogSum text = {NEGATIVE_INFINITY, 0.f}, times = text;
    u64 top_text = 0, top_time = 0;
    for (u32 token = text_from + threadIdx.x; token < text_to; token += THREADS) {
        float score = score_of(token);
        if (!(score > NEGATIVE_INFINITY)) continue;
        add(text, score);
        u64 key = order(score, token);
        top_text = key > top_text ? key : top_text;
    }
    for (u32 token = times_from + threadIdx.x; token < times_to; token += THREADS) {
        float score = score_of(token);
        if (!(score > NEGATIVE_INFINITY)) continue;
        add(times, score);
        u64 key = order(score, token);
        top_time = key > top_time ? key : top_time;
    }
    text = block_log_sum(text, log_sums);
    times = block_log_sum(times, log_sums);
    bool must_be_timestamp = query.flags & (TEXT | END) && times.top + __logf(times.sum) > text.top;
    LogSum total = must_be_timestamp ? times : joined(text, times);
    float log_total = total.top + __logf(total.sum);
    if (must_be_timestamp) text_to = text_from;

    if (samples) {
        // Neighbouring tokens belong to one thread, so that the cumulative distribution is in the order of tokens.
        u32 texts = text_to - text_from, count = texts + (times_to > times_from ? times_to - times_from : 0);
        u32 share = (count + THREADS - 1) / THREADS, from = min(threadIdx.x * share, count), to = min(from + share, count);
        auto token_at = [&](u32 index) { return index < texts ? text_from + index : times_from + (index - texts); };
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

    u64 mine = must_be_timestamp ? top_time : (top_text > top_time ? top_text : top_time);
    for (u32 k = 0; k < query.top_k; k++) {
        u64 top = block_max(mine, keys);
        u32 token = top == 0 ? NO_ENTRY : 0xffffffffu - (u32)top;
        if (threadIdx.x == 0) {
            best[k] = token;
            log_probs[k] = top == 0 ? NEGATIVE_INFINITY : scores[token] - log_total;
        }
        if (mine == top && top != 0) {
            // It was one of this thread's: the next one of them.
            mine = 0;
            for (u32 other = text_from + threadIdx.x; other < text_to; other += THREADS) {
                float score = score_of(other);
                u64 key = score > NEGATIVE_INFINITY ? order(score, other) : 0;
                if (key < top && key > mine) mine = key;
            }
            for (u32 other = times_from + threadIdx.x; other < times_to; other += THREADS) {
                float score = score_of(other);
                u64 key = score > NEGATIVE_INFINITY ? order(score, other) : 0;
                if (key < top && key > mine) mine = key;
            }
        }
    }
}
