//! Which instruction set the kernels use: found out once, at run time.

use std::str::FromStr;

/// A family of kernels, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// AMX tiles of bf16 and int8 for the products, AVX-512 for the rest (Sapphire Rapids and later).
    Amx,
    /// AVX-512 with bf16, and int8 dot products (Cooper Lake, Zen 4 and later).
    Avx512Bf16,
    /// AVX-512 with int8 dot products (Cascade Lake, Ice Lake and later).
    Avx512Vnni,
    /// AVX-512 with neither (Skylake-X and later).
    Avx512,
    /// AVX2 and FMA with int8 dot products (Alder Lake, Zen 5 and later).
    AvxVnni,
    /// AVX2 and FMA (Haswell, Zen and later).
    Avx2,
    /// Plain Rust, any machine.
    Portable,
}

impl Isa {
    /// Every family, best first.
    pub const ALL: [Isa; 7] =
        [Isa::Amx, Isa::Avx512Bf16, Isa::Avx512Vnni, Isa::Avx512, Isa::AvxVnni, Isa::Avx2, Isa::Portable];

    /// Whether this machine and its kernel allow the family.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq");
            let vnni = avx512 && is_x86_feature_detected!("avx512vnni");
            let bf16 = vnni && is_x86_feature_detected!("avx512bf16");
            match self {
                Isa::Amx => bf16 && is_x86_feature_detected!("avx512vbmi") && amx_permitted(),
                Isa::Avx512Bf16 => bf16,
                Isa::Avx512Vnni => vnni,
                Isa::Avx512 => avx512,
                Isa::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
                Isa::Avx2 => avx2,
                Isa::Portable => true,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Isa::Portable
        }
    }

    /// The best family this machine allows.
    pub fn best() -> Isa {
        Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    /// The name used by `HARK_ISA` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Amx => "amx",
            Isa::Avx512Bf16 => "avx512-bf16",
            Isa::Avx512Vnni => "avx512-vnni",
            Isa::Avx512 => "avx512",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Isa::ALL.into_iter().find(|isa| isa.name() == text).ok_or_else(|| {
            let names = Isa::ALL.map(Isa::name).join(", ");
            format!("unknown instruction set '{text}': use one of {names}")
        })
    }
}

/// Asks the kernel for the AMX tile state; true when the processor has AMX bf16 and int8 and the kernel agreed.
///
/// Linux gives tile registers only to processes that ask (arch_prctl ARCH_REQ_XCOMP_PERM, component 18).
/// The permission belongs to the process, so asking again is harmless.
#[cfg(target_arch = "x86_64")]
fn amx_permitted() -> bool {
    use std::sync::OnceLock;
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    *PERMITTED.get_or_init(|| {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // Leaf 7: EDX bit 22 is AMX-BF16, bit 24 AMX-TILE, bit 25 AMX-INT8.
        let leaf = std::arch::x86_64::__cpuid_count(7, 0);
        let has_amx = [22, 24, 25].into_iter().all(|bit| leaf.edx & (1 << bit) != 0);
        if !has_amx || !cfg!(target_os = "linux") {
            return false;
        }
        // SAFETY: a system call with two integer arguments that touches no memory of ours.
        let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
        answer == 0
    })
}
