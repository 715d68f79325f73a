//! Extensions by instruction: which are used in a range, and whether it asks the processor for them.

use std::collections::BTreeMap;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, Mnemonic};

use super::a64::words;

/// What a range of code holds.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Instructions by extension.
    pub extensions: BTreeMap<&'static str, u64>,
    /// How it asks the processor what it has.
    pub check: Option<&'static str>,
}

impl Asked {
    fn uses(&mut self, extension: &'static str) {
        *self.extensions.entry(extension).or_insert(0) += 1;
    }
}

/// x86-64: what an instruction needs, by `iced-x86`'s tables.
pub fn x86(code: &[u8], address: u64, asked: &mut Asked) {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        match instruction.mnemonic() {
            // Data, or cut off: what follows is not to be relied on.
            Mnemonic::INVALID => return,
            Mnemonic::Cpuid => asked.check = Some("CPUID"),
            // Encoded as REP BSF, which every processor takes; compilers write it for the baseline.
            Mnemonic::Tzcnt => continue,
            _ => {}
        }
        for feature in instruction.cpuid_features() {
            if let Some(extension) = of_feature(*feature) {
                asked.uses(extension);
            }
        }
    }
}

/// The extension that a feature stands for; none for what every x86-64 has and what is no matter of
/// speed.
fn of_feature(feature: CpuidFeature) -> Option<&'static str> {
    Some(match feature {
        CpuidFeature::SSE3 => "SSE3",
        CpuidFeature::SSSE3 => "SSSE3",
        CpuidFeature::SSE4_1 => "SSE4.1",
        CpuidFeature::SSE4_2 => "SSE4.2",
        CpuidFeature::SSE4A => "SSE4a",
        CpuidFeature::POPCNT => "POPCNT",
        CpuidFeature::LZCNT => "LZCNT",
        CpuidFeature::MOVBE => "MOVBE",
        CpuidFeature::BMI1 => "BMI1",
        CpuidFeature::BMI2 => "BMI2",
        CpuidFeature::ADX => "ADX",
        CpuidFeature::AES => "AES",
        CpuidFeature::PCLMULQDQ => "PCLMULQDQ",
        CpuidFeature::SHA => "SHA",
        CpuidFeature::F16C => "F16C",
        CpuidFeature::FMA => "FMA",
        CpuidFeature::AVX => "AVX",
        CpuidFeature::AVX2 => "AVX2",
        CpuidFeature::VAES => "VAES",
        CpuidFeature::VPCLMULQDQ => "VPCLMULQDQ",
        CpuidFeature::GFNI => "GFNI",
        CpuidFeature::AVX_VNNI => "AVX-VNNI",
        CpuidFeature::AVX512F
        | CpuidFeature::AVX512VL
        | CpuidFeature::AVX512BW
        | CpuidFeature::AVX512DQ
        | CpuidFeature::AVX512CD
        | CpuidFeature::AVX512_IFMA
        | CpuidFeature::AVX512_VBMI
        | CpuidFeature::AVX512_VBMI2
        | CpuidFeature::AVX512_VNNI
        | CpuidFeature::AVX512_BITALG
        | CpuidFeature::AVX512_VPOPCNTDQ
        | CpuidFeature::AVX512_BF16
        | CpuidFeature::AVX512_FP16 => "AVX-512",
        _ => return None,
    })
}

/// A64 instructions by mask and value; the first that fits. Arm Architecture Reference Manual, C4.1.
const A64: &[(u32, u32, &str)] = &[
    // SDOT, UDOT: vector, by element.
    (0x9FE0_FC00, 0x0E80_9400, "dotprod"),
    (0x9FC0_F400, 0x0F80_E000, "dotprod"),
    // SMMLA, UMMLA, USMMLA; USDOT.
    (0xDFE0_F400, 0x4E80_A400, "i8mm"),
    (0xBFE0_FC00, 0x0E80_9C00, "i8mm"),
    // BFDOT, BFMMLA.
    (0xBFE0_FC00, 0x2E40_FC00, "bf16"),
    (0xFFE0_FC00, 0x6E40_EC00, "bf16"),
    // Three vectors of halves.
    (0x9F60_C400, 0x0E40_0400, "fp16"),
    // CRC32B … CRC32CX.
    (0x7FE0_E000, 0x1AC0_4000, "crc32"),
    // AESE … AESIMC, PMULL of 64 bits, SHA1 and SHA256.
    (0xFFFF_CC00, 0x4E28_4800, "crypto"),
    (0xBFE0_FC00, 0x0EE0_E000, "crypto"),
    (0xFFE0_8C00, 0x5E00_0000, "crypto"),
    (0xFFFF_CC00, 0x5E28_0800, "crypto"),
    // SHA512H … and EOR3, BCAX.
    (0xFFE0_F000, 0xCE60_8000, "sha512"),
    (0xFF80_8000, 0xCE00_0000, "sha3"),
    // CAS, CASP, then LDADD … SWP; LDAPR.
    (0x3FA0_7C00, 0x08A0_7C00, "LSE"),
    (0xBFA0_7C00, 0x0820_7C00, "LSE"),
    (0x3FFF_FC00, 0x38BF_C000, "RCPC"),
    (0x3F20_8C00, 0x3820_0000, "LSE"),
    (0x3F20_FC00, 0x3820_8000, "LSE"),
    // SVE is a group of its own.
    (0x9E00_0000, 0x0400_0000, "SVE"),
    // Vectors: three same, across lanes, by element, shifts; MOVI is how a zero is made.
    (0x9F00_0000, 0x0E00_0000, "NEON"),
    (0x9F80_0400, 0x0F00_0400, "NEON"),
    (0x9F00_0400, 0x0F00_0000, "NEON"),
];

/// An exclusive load or store: what stands beside an LSE instruction in an outline helper.
const EXCLUSIVE: (u32, u32) = (0x3FA0_0000, 0x0800_0000);
/// Longest outline helper, in bytes.
const HELPER_BYTES: usize = 96;

/// aarch64: by masks.
pub fn a64(code: &[u8], asked: &mut Asked) {
    let mut exclusive = false;
    for word in words(code) {
        exclusive |= word & EXCLUSIVE.0 == EXCLUSIVE.1;
        // MRS of an ID register.
        if word & 0xFFFF_F000 == 0xD538_0000 {
            asked.check = Some("ID registers");
        }
        if let Some((_, _, extension)) = A64.iter().find(|(mask, value, _)| word & mask == *value) {
            asked.uses(extension);
        }
    }
    // An outline helper asks a flag before.
    if exclusive && code.len() <= HELPER_BYTES {
        asked.extensions.remove("LSE");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_a64(word: u32) -> Option<&'static str> {
        let mut asked = Asked::default();
        a64(&word.to_le_bytes(), &mut asked);
        asked.extensions.keys().next().copied()
    }

    fn of_x86(code: &[u8]) -> Vec<&'static str> {
        let mut asked = Asked::default();
        x86(code, 0, &mut asked);
        asked.extensions.keys().copied().collect()
    }

    /// Words as LLVM 14 assembles them.
    #[test]
    fn a64_instructions_are_told_apart() {
        for (word, extension) in [
            (0x4E82_9420, Some("dotprod")), // sdot v0.4s, v1.16b, v2.16b
            (0x6F82_E020, Some("dotprod")), // udot v0.4s, v1.16b, v2.4b[0]
            (0x4E82_A420, Some("i8mm")),    // smmla v0.4s, v1.16b, v2.16b
            (0x6E42_FC20, Some("bf16")),    // bfdot v0.4s, v1.8h, v2.8h
            (0x4E42_1420, Some("fp16")),    // fadd v0.8h, v1.8h, v2.8h
            (0x1AC2_5020, Some("crc32")),   // crc32cb w0, w1, w2
            (0x4E28_4820, Some("crypto")),  // aese v0.16b, v1.16b
            (0x0EE2_E020, Some("crypto")),  // pmull v0.1q, v1.1d, v2.1d
            (0xB8E0_0020, Some("LSE")),     // ldaddal w0, w0, [x1]
            (0x88E0_FC41, Some("LSE")),     // casal w0, w1, [x2]
            (0x38BF_C020, Some("RCPC")),    // ldaprb w0, [x1]
            (0x0420_E3E0, Some("SVE")),     // cntb x0
            (0x4EA2_8420, Some("NEON")),    // add v0.4s, v1.4s, v2.4s
            (0x8B02_0020, None),            // add x0, x1, x2
            (0x1E62_2820, None),            // fadd d0, d1, d2
            (0x3CC0_0420, None),            // ldr q0, [x1], #0
            (0xD503_201F, None),            // nop
        ] {
            assert_eq!(of_a64(word), extension, "{word:#010x}");
        }
    }

    #[test]
    fn x86_instructions_are_told_apart() {
        assert_eq!(of_x86(&[0xF2, 0x48, 0x0F, 0x38, 0xF1, 0xC7]), ["SSE4.2"]); // crc32 rax, rdi
        assert_eq!(of_x86(&[0xF3, 0x48, 0x0F, 0xB8, 0xC7]), ["POPCNT"]); // popcnt rax, rdi
        assert_eq!(of_x86(&[0xC5, 0xFD, 0xFE, 0xC1]), ["AVX2"]); // vpaddd ymm0, ymm0, ymm1
        assert_eq!(of_x86(&[0x62, 0xF1, 0x7D, 0x48, 0xFE, 0xC1]), ["AVX-512"]); // vpaddd zmm0, zmm0, zmm1
        assert!(of_x86(&[0x66, 0x0F, 0xFE, 0xC1]).is_empty()); // paddd xmm0, xmm1
        assert!(of_x86(&[0xF3, 0x0F, 0xBC, 0xC7]).is_empty()); // rep bsf eax, edi
    }
}
