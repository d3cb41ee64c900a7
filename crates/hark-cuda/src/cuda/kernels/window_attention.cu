// Keys and values of windows, [window][frame][key, value][head][64], to [key, value][head][frame][64] of their slots. `heads` counts those of
// keys and of values. Grid: frames, windows.
extern "C" __global__ void __launch_bounds__(256) store_window_keys(
    const u16* rows, const u32* slots, u16* to, u64 slot_stride, const float*, u64, int frames, int heads) {
    take_turn();
    u64 frame = blockIdx.x, window = blockIdx.y;
    rows += (window * frames + frame) * heads * HEAD;
    to += slots[window] * slot_stride;
    for (int i = threadIdx.x; i < heads * 8; i += blockDim.x)
        *(uint4*)(to + (((u64)(i >> 3) * frames + frame) * 8 + (i & 7)) * 8) = *(const uint4*)(rows + i * 8);
}

WINDOW_KERNELS(Bf16Keys, cross_attention, shared_cross_attention, head_scores)
