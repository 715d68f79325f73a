//! Arm processors by the numbers of their main ID register.

/// The name of a processor by implementer and part number (MIDR_EL1 bits 31:24
/// and 15:4), where it is one that servers or developers' boards have.
///
/// The numbers are the manufacturers', as Linux's
/// arch/arm64/include/asm/cputype.h and util-linux's sys-utils/lscpu-arm.c list
/// them.
pub(super) fn name(implementer: u32, part: u32) -> Option<&'static str> {
    let name = match (implementer, part) {
        (0x41, 0xd03) => "Arm Cortex-A53",
        (0x41, 0xd05) => "Arm Cortex-A55",
        (0x41, 0xd07) => "Arm Cortex-A57",
        (0x41, 0xd08) => "Arm Cortex-A72",
        (0x41, 0xd09) => "Arm Cortex-A73",
        (0x41, 0xd0a) => "Arm Cortex-A75",
        (0x41, 0xd0b) => "Arm Cortex-A76",
        (0x41, 0xd0c) => "Arm Neoverse-N1",
        (0x41, 0xd0d) => "Arm Cortex-A77",
        (0x41, 0xd40) => "Arm Neoverse-V1",
        (0x41, 0xd41) => "Arm Cortex-A78",
        (0x41, 0xd44) => "Arm Cortex-X1",
        (0x41, 0xd49) => "Arm Neoverse-N2",
        (0x41, 0xd4a) => "Arm Neoverse-E1",
        (0x41, 0xd4f) => "Arm Neoverse-V2",
        (0x41, 0xd84) => "Arm Neoverse-V3",
        (0x41, 0xd83) => "Arm Neoverse-V3AE",
        (0x41, 0xd8e) => "Arm Neoverse-N3",
        (0x43, 0x0a1) => "Cavium ThunderX",
        (0x43, 0x0af) => "Cavium ThunderX2",
        (0x43, 0x0b8) => "Marvell ThunderX3",
        (0x46, 0x001) => "Fujitsu A64FX",
        (0x48, 0xd01) => "HiSilicon TaiShan v110 (Kunpeng 920)",
        (0x48, 0xd02) => "HiSilicon TaiShan v120",
        (0x4e, 0x004) => "NVIDIA Carmel",
        (0x50, 0x000) => "APM X-Gene",
        (0x51, 0xc00) => "Qualcomm Falkor",
        (0x51, 0x001) => "Qualcomm Oryon",
        (0x61, 0x022) => "Apple M1 (Icestorm)",
        (0x61, 0x023) => "Apple M1 (Firestorm)",
        (0x61, 0x032) => "Apple M2 (Blizzard)",
        (0x61, 0x033) => "Apple M2 (Avalanche)",
        (0x6d, 0xd49) => "Microsoft Azure Cobalt 100 (Neoverse-N2)",
        (0x70, 0x662) => "Phytium FTC662",
        (0x70, 0x663) => "Phytium FTC663",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1a",
        _ => return None,
    };
    Some(name)
}
