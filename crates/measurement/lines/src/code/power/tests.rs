use super::*;

fn of(word: u32) -> Effect<Operand> {
    Decode.effect(&word.to_le_bytes(), 0x1000).unwrap()
}

fn prefixed(prefix: u32, suffix: u32) -> Effect<Operand> {
    let bytes = [prefix.to_le_bytes(), suffix.to_le_bytes()].concat();
    Decode.effect(&bytes, 0x1000).unwrap()
}

fn thousands(number: usize) -> u64 {
    number as u64 * 0x1000
}

/// Address, length and kind, where a register's value is 0x1000 times its number.
fn one(effect: &Effect<Operand>) -> (u64, u32, &'static str) {
    assert_eq!(effect.operands.len(), 1, "{effect:?}");
    let operand = effect.operands[0];
    let kind = match (operand.loads, operand.stores) {
        (true, None) => "load",
        (false, Some(Kind::Store)) => "store",
        (false, Some(Kind::Atomic)) => "atomic",
        other => panic!("{other:?}"),
    };
    let size = operand.size(thousands).unwrap();
    (operand.address(thousands, (0, 0)), size, kind)
}

/// Words as GNU as makes them of the text behind.
#[test]
fn loads_stores_and_atomics() {
    let cases = [
        (0x8043_0010, (0x3010, 4, "load")),     // lwz 2,16(3)
        (0x85c4_fff0, (0x3ff0, 4, "load")),     // lwzu 14,-16(4)
        (0x8845_0020, (0x5020, 1, "load")),     // lbz 2,32(5)
        (0x8dc6_0030, (0x6030, 1, "load")),     // lbzu 14,48(6)
        (0x9047_ffe0, (0x6fe0, 4, "store")),    // stw 2,-32(7)
        (0x9448_7ff0, (0xfff0, 4, "store")),    // stwu 2,32752(8)
        (0x9849_8000, (0x1000, 1, "store")),    // stb 2,-32768(9)
        (0x9c43_0010, (0x3010, 1, "store")),    // stbu 2,16(3)
        (0xa044_fff0, (0x3ff0, 2, "load")),     // lhz 2,-16(4)
        (0xa445_0020, (0x5020, 2, "load")),     // lhzu 2,32(5)
        (0xa846_0030, (0x6030, 2, "load")),     // lha 2,48(6)
        (0xac47_ffe0, (0x6fe0, 2, "load")),     // lhau 2,-32(7)
        (0xb048_7ff0, (0xfff0, 2, "store")),    // sth 2,32752(8)
        (0xb449_8000, (0x1000, 2, "store")),    // sthu 2,-32768(9)
        (0xc043_0010, (0x3010, 4, "load")),     // lfs 2,16(3)
        (0xc444_fff0, (0x3ff0, 4, "load")),     // lfsu 2,-16(4)
        (0xc845_0020, (0x5020, 8, "load")),     // lfd 2,32(5)
        (0xcc46_0030, (0x6030, 8, "load")),     // lfdu 2,48(6)
        (0xd047_ffe0, (0x6fe0, 4, "store")),    // stfs 2,-32(7)
        (0xd448_7ff0, (0xfff0, 4, "store")),    // stfsu 2,32752(8)
        (0xd849_8000, (0x1000, 8, "store")),    // stfd 2,-32768(9)
        (0xdc43_0010, (0x3010, 8, "store")),    // stfdu 2,16(3)
        (0xe044_fff0, (0x3ff0, 16, "load")),    // lq 2,-16(4)
        (0xe445_0020, (0x5020, 16, "load")),    // lfdp 2,32(5)
        (0xe446_0032, (0x6030, 8, "load")),     // lxsd 2,48(6)
        (0xe447_ffe3, (0x6fe0, 4, "load")),     // lxssp 2,-32(7)
        (0xe848_7ff0, (0xfff0, 8, "load")),     // ld 2,32752(8)
        (0xe9c9_8001, (0x1000, 8, "load")),     // ldu 14,-32768(9)
        (0xe843_0012, (0x3010, 4, "load")),     // lwa 2,16(3)
        (0xf444_fff0, (0x3ff0, 16, "store")),   // stfdp 2,-16(4)
        (0xf445_0022, (0x5020, 8, "store")),    // stxsd 2,32(5)
        (0xf446_0033, (0x6030, 4, "store")),    // stxssp 2,48(6)
        (0xf447_ffe1, (0x6fe0, 16, "load")),    // lxv 2,-32(7)
        (0xf448_7ff5, (0xfff0, 16, "store")),   // stxv 2,32752(8)
        (0xf849_8000, (0x1000, 8, "store")),    // std 2,-32768(9)
        (0xf843_0011, (0x3010, 8, "store")),    // stdu 2,16(3)
        (0xf844_fff2, (0x3ff0, 16, "store")),   // stq 2,-16(4)
        (0x1845_0020, (0x5020, 32, "load")),    // lxvp 2,32(5)
        (0x1846_0031, (0x6030, 32, "store")),   // stxvp 2,48(6)
        (0x7c47_b8ae, (0x1_e000, 1, "load")),   // lbzx 2,7,23
        (0x7c48_c0ee, (0x2_0000, 1, "load")),   // lbzux 2,8,24
        (0x7c49_ca2e, (0x2_2000, 2, "load")),   // lhzx 2,9,25
        (0x7c43_d26e, (0x1_d000, 2, "load")),   // lhzux 2,3,26
        (0x7c44_daae, (0x1_f000, 2, "load")),   // lhax 2,4,27
        (0x7c45_e2ee, (0x2_1000, 2, "load")),   // lhaux 2,5,28
        (0x7c46_a02e, (0x1_a000, 4, "load")),   // lwzx 2,6,20
        (0x7c47_a86e, (0x1_c000, 4, "load")),   // lwzux 2,7,21
        (0x7c48_b2aa, (0x1_e000, 4, "load")),   // lwax 2,8,22
        (0x7c49_baea, (0x2_0000, 4, "load")),   // lwaux 2,9,23
        (0x7c43_c02a, (0x1_b000, 8, "load")),   // ldx 2,3,24
        (0x7c44_c86a, (0x1_d000, 8, "load")),   // ldux 2,4,25
        (0x7c45_d62c, (0x1_f000, 2, "load")),   // lhbrx 2,5,26
        (0x7c46_dc2c, (0x2_1000, 4, "load")),   // lwbrx 2,6,27
        (0x7c47_e428, (0x2_3000, 8, "load")),   // ldbrx 2,7,28
        (0x7c48_a42e, (0x1_c000, 4, "load")),   // lfsx 2,8,20
        (0x7c49_ac6e, (0x1_e000, 4, "load")),   // lfsux 2,9,21
        (0x7c43_b4ae, (0x1_9000, 8, "load")),   // lfdx 2,3,22
        (0x7c44_bcee, (0x1_b000, 8, "load")),   // lfdux 2,4,23
        (0x7c45_c6ae, (0x1_d000, 4, "load")),   // lfiwax 2,5,24
        (0x7c46_ceee, (0x1_f000, 4, "load")),   // lfiwzx 2,6,25
        (0x7c47_d62e, (0x2_1000, 16, "load")),  // lfdpx 2,7,26
        (0x7c48_d80e, (0x2_3000, 1, "load")),   // lvebx 2,8,27
        (0x7c49_e04e, (0x2_5000, 2, "load")),   // lvehx 2,9,28
        (0x7c43_a08e, (0x1_7000, 4, "load")),   // lvewx 2,3,20
        (0x7c44_a8ce, (0x1_9000, 16, "load")),  // lvx 2,4,21
        (0x7c45_b2ce, (0x1_b000, 16, "load")),  // lvxl 2,5,22
        (0x7c46_bc98, (0x1_d000, 8, "load")),   // lxsdx 2,6,23
        (0x7c47_c098, (0x1_f000, 4, "load")),   // lxsiwax 2,7,24
        (0x7c48_c818, (0x2_1000, 4, "load")),   // lxsiwzx 2,8,25
        (0x7c49_d418, (0x2_3000, 4, "load")),   // lxsspx 2,9,26
        (0x7c43_de98, (0x1_e000, 16, "load")),  // lxvd2x 2,3,27
        (0x7c44_e298, (0x2_0000, 8, "load")),   // lxvdsx 2,4,28
        (0x7c45_a618, (0x1_9000, 16, "load")),  // lxvw4x 2,5,20
        (0x7c46_ae58, (0x1_b000, 16, "load")),  // lxvh8x 2,6,21
        (0x7c47_b6d8, (0x1_d000, 16, "load")),  // lxvb16x 2,7,22
        (0x7c48_be1a, (0x1_f000, 1, "load")),   // lxsibzx 2,8,23
        (0x7c49_c65a, (0x2_1000, 2, "load")),   // lxsihzx 2,9,24
        (0x7c43_cad8, (0x1_c000, 4, "load")),   // lxvwsx 2,3,25
        (0x7c44_d218, (0x1_e000, 16, "load")),  // lxvx 2,4,26
        (0x7c45_d81a, (0x2_0000, 1, "load")),   // lxvrbx 2,5,27
        (0x7c46_e05a, (0x2_2000, 2, "load")),   // lxvrhx 2,6,28
        (0x7c47_a09a, (0x1_b000, 4, "load")),   // lxvrwx 2,7,20
        (0x7c48_a8da, (0x1_d000, 8, "load")),   // lxvrdx 2,8,21
        (0x7c49_b29a, (0x1_f000, 32, "load")),  // lxvpx 2,9,22
        (0x7c43_b9ae, (0x1_a000, 1, "store")),  // stbx 2,3,23
        (0x7c44_c1ee, (0x1_c000, 1, "store")),  // stbux 2,4,24
        (0x7c45_cb2e, (0x1_e000, 2, "store")),  // sthx 2,5,25
        (0x7c46_d36e, (0x2_0000, 2, "store")),  // sthux 2,6,26
        (0x7c47_d92e, (0x2_2000, 4, "store")),  // stwx 2,7,27
        (0x7c48_e16e, (0x2_4000, 4, "store")),  // stwux 2,8,28
        (0x7c49_a12a, (0x1_d000, 8, "store")),  // stdx 2,9,20
        (0x7c43_a96a, (0x1_8000, 8, "store")),  // stdux 2,3,21
        (0x7c44_b72c, (0x1_a000, 2, "store")),  // sthbrx 2,4,22
        (0x7c45_bd2c, (0x1_c000, 4, "store")),  // stwbrx 2,5,23
        (0x7c46_c528, (0x1_e000, 8, "store")),  // stdbrx 2,6,24
        (0x7c47_cd2e, (0x2_0000, 4, "store")),  // stfsx 2,7,25
        (0x7c48_d56e, (0x2_2000, 4, "store")),  // stfsux 2,8,26
        (0x7c49_ddae, (0x2_4000, 8, "store")),  // stfdx 2,9,27
        (0x7c43_e5ee, (0x1_f000, 8, "store")),  // stfdux 2,3,28
        (0x7c44_a7ae, (0x1_8000, 4, "store")),  // stfiwx 2,4,20
        (0x7c45_af2e, (0x1_a000, 16, "store")), // stfdpx 2,5,21
        (0x7c46_b10e, (0x1_c000, 1, "store")),  // stvebx 2,6,22
        (0x7c47_b94e, (0x1_e000, 2, "store")),  // stvehx 2,7,23
        (0x7c48_c18e, (0x2_0000, 4, "store")),  // stvewx 2,8,24
        (0x7c49_c9ce, (0x2_2000, 16, "store")), // stvx 2,9,25
        (0x7c43_d3ce, (0x1_d000, 16, "store")), // stvxl 2,3,26
        (0x7c44_dd98, (0x1_f000, 8, "store")),  // stxsdx 2,4,27
        (0x7c45_e118, (0x2_1000, 4, "store")),  // stxsiwx 2,5,28
        (0x7c46_a518, (0x1_a000, 4, "store")),  // stxsspx 2,6,20
        (0x7c47_af98, (0x1_c000, 16, "store")), // stxvd2x 2,7,21
        (0x7c48_b718, (0x1_e000, 16, "store")), // stxvw4x 2,8,22
        (0x7c49_bf58, (0x2_0000, 16, "store")), // stxvh8x 2,9,23
        (0x7c43_c7d8, (0x1_b000, 16, "store")), // stxvb16x 2,3,24
        (0x7c44_cf1a, (0x1_d000, 1, "store")),  // stxsibx 2,4,25
        (0x7c45_d75a, (0x1_f000, 2, "store")),  // stxsihx 2,5,26
        (0x7c46_db18, (0x2_1000, 16, "store")), // stxvx 2,6,27
        (0x7c47_e11a, (0x2_3000, 1, "store")),  // stxvrbx 2,7,28
        (0x7c48_a15a, (0x1_c000, 2, "store")),  // stxvrhx 2,8,20
        (0x7c49_a99a, (0x1_e000, 4, "store")),  // stxvrwx 2,9,21
        (0x7c43_b1da, (0x1_9000, 8, "store")),  // stxvrdx 2,3,22
        (0x7c44_bb9a, (0x1_b000, 32, "store")), // stxvpx 2,4,23
        (0xbba4_0008, (0x4008, 12, "load")),    // lmw 29,8(4)
        (0xbdc4_fff8, (0x3ff8, 72, "store")),   // stmw 14,-8(4)
        (0x7dc9_3caa, (0x9000, 7, "load")),     // lswi 14,9,7
        (0x7dc9_05aa, (0x9000, 32, "store")),   // stswi 14,9,32
        (0x7c64_048c, (0x4000, 4, "atomic")),   // lwat 3,4,0
        (0x7c64_84cc, (0x4000, 8, "atomic")),   // ldat 3,4,16
        (0x7c64_c48c, (0x4000, 8, "atomic")),   // lwat 3,4,24
        (0x7c64_e4cc, (0x3ff8, 16, "atomic")),  // ldat 3,4,28
        (0x7c64_058c, (0x4000, 4, "atomic")),   // stwat 3,4,0
        (0x7c64_c5cc, (0x4000, 16, "atomic")),  // stdat 3,4,24
        (0x7c23_260c, (0x7000, 128, "load")),   // copy 3,4
        (0x7c23_270d, (0x7000, 128, "store")),  // paste. 3,4
        (0x7c05_37ec, (0xb000, 128, "store")),  // dcbz 5,6
        (0x7c00_37ec, (0x6000, 128, "store")),  // dcbz 0,6
        (0x7fe4_1da5, (0x3ff8, 8, "store")),    // hashst 3,-8(4)
        (0x7c04_1de4, (0x3e00, 8, "load")),     // hashchk 3,-512(4)
        (0xe860_0010, (0x10, 8, "load")),       // ld 3,16(0)
        (0x7c60_202e, (0x4000, 4, "load")),     // lwzx 3,0,4
        (0xf504_0029, (0x4020, 16, "load")),    // lxv 40,32(4)
        (0xf7e4_fffd, (0x3ff0, 16, "store")),   // stxv 63,-16(4)
        (0x7d03_2219, (0x7000, 16, "load")),    // lxvx 40,3,4
        (0x1864_0021, (0x4020, 32, "store")),   // stxvp 34,32(4)
    ];
    for (word, expected) in cases {
        assert_eq!(one(&of(word)), expected, "{word:08x}");
    }
}

#[test]
fn prefixed_loads_and_stores() {
    let cases = [
        (0x0600_1234, 0x8043_5678, (0x1234_8678, 4, "load")), // plwz 2,305419896(3),0
        (0x0603_ffff, 0x8844_fff8, (0x3ff8, 1, "load")),      // plbz 2,-8(4),0
        (
            0x0603_0000,
            0x9045_0000,
            (0xffff_ffff_0000_5000, 4, "store"),
        ), // pstw 2,-4294967296(5),0
        (0x0601_ffff, 0x9846_fff8, (0x2_0000_5ff8, 1, "store")), // pstb 2,8589934584(6),0
        (0x0600_1234, 0xa047_5678, (0x1234_c678, 2, "load")), // plhz 2,305419896(7),0
        (0x0603_ffff, 0xa848_fff8, (0x7ff8, 2, "load")),      // plha 2,-8(8),0
        (
            0x0603_0000,
            0xb043_0000,
            (0xffff_ffff_0000_3000, 2, "store"),
        ), // psth 2,-4294967296(3),0
        (0x0601_ffff, 0xc044_fff8, (0x2_0000_3ff8, 4, "load")), // plfs 2,8589934584(4),0
        (0x0600_1234, 0xc845_5678, (0x1234_a678, 8, "load")), // plfd 2,305419896(5),0
        (0x0603_ffff, 0xd046_fff8, (0x5ff8, 4, "store")),     // pstfs 2,-8(6),0
        (
            0x0603_0000,
            0xd847_0000,
            (0xffff_ffff_0000_7000, 8, "store"),
        ), // pstfd 2,-4294967296(7),0
        (0x0401_ffff, 0xa448_fff8, (0x2_0000_7ff8, 4, "load")), // plwa 2,8589934584(8),0
        (0x0400_1234, 0xa843_5678, (0x1234_8678, 8, "load")), // plxsd 2,305419896(3),0
        (0x0403_ffff, 0xac44_fff8, (0x3ff8, 4, "load")),      // plxssp 2,-8(4),0
        (
            0x0403_0000,
            0xb845_0000,
            (0xffff_ffff_0000_5000, 8, "store"),
        ), // pstxsd 2,-4294967296(5),0
        (0x0401_ffff, 0xbc46_fff8, (0x2_0000_5ff8, 4, "store")), // pstxssp 2,8589934584(6),0
        (0x0400_1234, 0xc847_5678, (0x1234_c678, 16, "load")), // plxv 2,305419896(7),0
        (0x0403_ffff, 0xd848_fff8, (0x7ff8, 16, "store")),    // pstxv 2,-8(8),0
        (0x0403_0000, 0xe443_0000, (0xffff_ffff_0000_3000, 8, "load")), // pld 2,-4294967296(3),0
        (0x0401_ffff, 0xe844_fff8, (0x2_0000_3ff8, 32, "load")), // plxvp 2,8589934584(4),0
        (0x0400_1234, 0xf045_5678, (0x1234_a678, 16, "store")), // pstq 2,305419896(5),0
        (0x0403_ffff, 0xe046_fff8, (0x5ff8, 16, "load")),     // plq 2,-8(6),0
        (
            0x0403_0000,
            0xf447_0000,
            (0xffff_ffff_0000_7000, 8, "store"),
        ), // pstd 2,-4294967296(7),0
        (0x0401_ffff, 0xf848_fff8, (0x2_0000_7ff8, 32, "store")), // pstxvp 2,8589934584(8),0
        (0x0410_0000, 0xe460_0010, (0x1010, 8, "load")),      // pld 3,16(0),1
    ];
    for (prefix, suffix, expected) in cases {
        let effect = prefixed(prefix, suffix);
        assert_eq!(one(&effect), expected, "{prefix:08x} {suffix:08x}");
        assert_eq!(effect.next, 0x1008);
    }
    assert!(prefixed(0x0600_0000, 0x3864_0000).operands.is_empty()); // paddi 3,4,0
    assert!(prefixed(0x0700_0000, 0).operands.is_empty()); // pnop
    assert!(prefixed(0x0400_0000, 0xe461_0020).operands.is_empty()); // pld 3,32(1)
    assert!(Decode.effect(&0x0410_0000_u32.to_le_bytes(), 0).is_none());
}

#[test]
fn what_touches_no_shared_memory_has_no_operands() {
    for word in [
        0x7c00_1a2c, // dcbtct 0,3
        0x7c00_19ec, // dcbtstct 0,3
        0x7c00_18ac, // dcbf 0,3
        0x7c00_186c, // dcbst 0,3
        0x7c00_1fac, // icbi 0,3
        0x7c00_04ac, // hwsync
        0x7c20_04ac, // lwsync
        0x4c00_012c, // isync
        0x7c00_06ac, // eieio
        0x3864_0005, // addi 3,4,5
        0x7c64_2a14, // add 3,4,5
        0x7c68_02a6, // mflr 3
        0x7d89_03a6, // mtctr 12
        0x7c23_2000, // cmpd 3,4
        0x7c83_07b4, // extsw 3,4
        0x7c61_05e6, // darn 3,1
        0x7c43_200c, // lvsl 2,3,4
        0x7c43_204c, // lvsr 2,3,4
        0xf043_2497, // xxlor 34,35,36
        0xf043_2057, // xxmrghd 34,35,36
        0xfc22_182a, // fadd 1,2,3
        0x7fe0_0008, // trap
        0x6000_0000, // nop
        0xe861_0010, // ld 3,16(1)
        0xf821_ffe1, // stdu 1,-32(1)
        0x7c61_212a, // stdx 3,1,4
    ] {
        let effect = of(word);
        let none = effect.operands.is_empty() && !effect.unresolved;
        assert!(none && effect.exclusive.is_none(), "{word:08x}: {effect:?}");
    }
}

#[test]
fn some_addresses_are_rounded_down() {
    let at = |word: u32| {
        let address = |number| if number == 4 { 0x2047 } else { 0x1000 };
        of(word).operands[0].address(address, (0, 0))
    };
    assert_eq!(at(0x7c43_20ce), 0x3040); // lvx 2,3,4
    assert_eq!(at(0x7c43_204e), 0x3046); // lvehx 2,3,4
    assert_eq!(at(0x7c43_218e), 0x3044); // stvewx 2,3,4
    assert_eq!(at(0x7c03_27ec), 0x3000); // dcbz 3,4
    assert_eq!(at(0x7c60_202e), 0x2047); // lwzx 3,0,4
}

#[test]
fn lengths_in_registers() {
    // lxvl 34,3,4; stxvl 34,3,4; lxvll 34,3,4; stxvll 34,3,4
    for word in [0x7c43_221b, 0x7c43_231b, 0x7c43_225b, 0x7c43_235b] {
        let size =
            |length: u64| of(word).operands[0].size(|n| if n == 4 { length << 56 } else { 0 });
        assert_eq!(
            (size(5), size(16), size(200)),
            (Some(5), Some(16), Some(16))
        );
        assert_eq!(size(0), None, "{word:08x}");
        let effect = of(word);
        assert_eq!(effect.operands[0].address(thousands, (0, 0)), 0x3000);
    }
    // lswx 3,4,5; stswx 3,4,5
    assert!(of(0x7c64_2c2a).unresolved && of(0x7c64_2d2a).unresolved);
    // lswi 14,9,0: 32 bytes.
    assert_eq!(one(&of(0x7dc9_04aa)), (0x9000, 32, "load"));
}

#[test]
fn calls_returns_and_system_calls() {
    let cases = [
        (0x4800_0009, Flow::Call),   // bl .+8
        (0x4800_1003, Flow::Call),   // bla 0x1000
        (0x4e80_0421, Flow::Call),   // bctrl
        (0x4e80_0021, Flow::Call),   // blrl
        (0x4e80_0461, Flow::Call),   // bctarl 20,0
        (0x4182_0009, Flow::Call),   // beql .+8
        (0x4e80_0020, Flow::Return), // blr
        (0x4d82_0020, Flow::Return), // beqlr
        (0x4e00_0020, Flow::Return), // bdnzlr
        (0x4400_0002, Flow::System), // sc
        (0x4400_0001, Flow::System), // scv 0
        (0x429f_0005, Flow::On),     // bcl 20,31,.+4
        (0x4800_0008, Flow::On),     // b .+8
        (0x4182_0008, Flow::On),     // beq .+8
        (0x4e80_0420, Flow::On),     // bctr
        (0x4d82_0420, Flow::On),     // beqctr
        (0x4e80_0460, Flow::On),     // bctar 20,0
        (0x4c00_0924, Flow::On),     // rfebb
    ];
    for (word, flow) in cases {
        assert_eq!(of(word).flow, flow, "{word:08x}");
    }
    assert_eq!(of(0).next, 0x1004);
    assert!(Decode.effect(&[0, 0, 0], 0).is_none());
}

#[test]
fn branches_by_a_bit_and_by_the_counter() {
    const EQ: u64 = 1 << 29;
    let taken = |word: u32, condition: u64, counter: u64| {
        of(word).condition.unwrap().holds(condition, counter)
    };
    for word in [0x4e80_0020, 0x4e80_0421, 0x4800_0009] {
        assert_eq!(of(word).condition, None, "{word:08x}"); // blr; bctrl; bl .+8
    }
    // beqlr
    assert!(taken(0x4d82_0020, EQ, 0) && !taken(0x4d82_0020, !EQ, 0));
    // bnelr 7: the second lowest bit of the register.
    assert!(taken(0x4c9e_0020, !2, 0) && !taken(0x4c9e_0020, 2, 0));
    // bnectrl
    assert!(taken(0x4c82_0421, 0, 1) && !taken(0x4c82_0421, EQ, 1));
    // bdnzlr, bdzlr: what the counter is once it is one less.
    assert!(taken(0x4e00_0020, 0, 2) && !taken(0x4e00_0020, 0, 1));
    assert!(!taken(0x4e40_0020, 0, 2) && taken(0x4e40_0020, 0, 1));
    // bdnzflr 2: both.
    assert!(taken(0x4c02_0020, 0, 2));
    assert!(!taken(0x4c02_0020, EQ, 2) && !taken(0x4c02_0020, 0, 1));
}

#[test]
fn exclusive_halves() {
    let cases = [
        (0x7c60_2028, (0, 4, 4, false, 3, None)),     // lwarx 3,0,4
        (0x7c65_2029, (5, 4, 4, false, 3, None)),     // lwarx 3,5,4,1
        (0x7ce0_48a8, (0, 9, 8, false, 7, None)),     // ldarx 7,0,9
        (0x7c60_2068, (0, 4, 1, false, 3, None)),     // lbarx 3,0,4
        (0x7fe8_20e8, (8, 4, 2, false, 31, None)),    // lharx 31,8,4
        (0x7c80_2a28, (0, 5, 8, true, 4, None)),      // lqarx 4,0,5
        (0x7c60_212d, (0, 4, 4, false, 3, Some(0))),  // stwcx. 3,0,4
        (0x7ce6_49ad, (6, 9, 8, false, 7, Some(0))),  // stdcx. 7,6,9
        (0x7c60_256d, (0, 4, 1, false, 3, Some(0))),  // stbcx. 3,0,4
        (0x7fe8_25ad, (8, 4, 2, false, 31, Some(0))), // sthcx. 31,8,4
        (0x7c80_296d, (0, 5, 8, true, 4, Some(0))),   // stqcx. 4,0,5
    ];
    for (word, (base, index, size, pair, value, status)) in cases {
        let expected = Exclusive {
            base,
            index: Some(index),
            size,
            pair,
            value,
            status,
        };
        assert_eq!(of(word).exclusive, Some(expected), "{word:08x}");
    }
}
