//! What x86's CPUID says of a hypervisor; nothing on other processors.

/// The hypervisor's signature (`KVMKVMKVM`, `Microsoft Hv`, `VMwareVMware` …),
/// where the processor is x86-64 and says that it runs under one.
///
/// Leaf 1's ECX bit 31 is reserved for hypervisors to set, and leaf 0x40000000
/// is where they sign (Intel SDM vol. 2A, CPUID; Linux's
/// Documentation/virt/kvm/x86/cpuid.rst).
#[cfg(target_arch = "x86_64")]
pub fn hypervisor_signature() -> Option<String> {
    if cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = cpuid(0x4000_0000);
    let mut bytes = Vec::with_capacity(12);
    for register in [leaf.ebx, leaf.ecx, leaf.edx] {
        bytes.extend_from_slice(&register.to_le_bytes());
    }
    let text: String = bytes
        .iter()
        .take_while(|&&byte| byte != 0)
        .map(|&byte| {
            if byte.is_ascii_graphic() || byte == b' ' {
                char::from(byte)
            } else {
                '?'
            }
        })
        .collect();
    Some(text.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe)] // newer Rust calls it safe
fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::__cpuid(leaf) }
}

/// No CPUID on this processor: nothing is known.
#[cfg(not(target_arch = "x86_64"))]
pub fn hypervisor_signature() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_kernels_flag() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flagged = cpuinfo.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        });
        assert_eq!(super::hypervisor_signature().is_some(), flagged);
    }
}
