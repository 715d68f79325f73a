//! Stores of 0 into home-made locks: which are releases, and which only set the lock up.

use super::of;

/// The lines of releases by a plain store.
fn releases(name: &str, text: &str) -> Vec<u32> {
    let porting = of(name, text);
    let of_rule = porting
        .findings
        .iter()
        .filter(|finding| finding.rule == "spinlock-release");
    of_rule.filter_map(|finding| finding.line).collect()
}

const TAKE: &str =
    "static void take(my_lock_t *lock) { while (__sync_lock_test_and_set(lock, 1)) ; }\n";

#[test]
fn whoever_sets_a_lock_up_or_takes_it_down_releases_nothing() {
    let setups = [
        "static inline void my_lock_init(my_lock_t *lock) { *lock = 0; }",
        "void InitPool(Pool *p) { p->lock = 0; p->n = 0; }",
        "Pool *pool_new(void) { Pool *p = get(); p->lock = 0; return p; }",
        "void pool_reset(Pool *p) { p->lock = 0; }",
        "void pool_destroy(Pool *p) { p->lock = 0; }",
        "Pool *pool(void) { Pool *p = malloc(sizeof(*p)); p->lock = 0; return p; }",
        "Pool *pool(void) { Pool *p = palloc0(sizeof(*p)); p->lock = false; return p; }",
        "void attach(void) { shared = ShmemInitStruct(\"x\", 8, &found); shared->lock = 0; }",
        "void fill(Pool *p) { memset(p, 0, sizeof(*p)); p->lock = 0; }",
        "void fill(Pool *p) { pthread_mutex_init(&p->m, NULL); p->lock = 0; }",
        "static my_lock_t lock = 0;",
        "static Pool one = { .lock = 0, .n = 1 };",
        "#define MY_LOCK_INIT(l) ((l)->lock = 0)",
        "#define MY_LOCK_INITIALIZER { .lock = 0 }",
    ];
    let release = "void give(my_lock_t *lock) { __sync_lock_release(lock); }\n";
    for setup in setups {
        for rest in ["", release] {
            let text = format!("{setup}\n{TAKE}{rest}");
            assert_eq!(releases("l.h", &text), [0_u32; 0], "{text}");
            assert_eq!(releases("l.c", &text), [0; 0], "{text}");
        }
    }
    let class = "struct Lock { int lock; Lock() { lock = 0; } ~Lock() { lock = 0; }\n\
        void take() { while (__sync_lock_test_and_set(&lock, 1)) ; } };\n\
        Other::Other() { lock = 0; }\n";
    assert_eq!(releases("l.cpp", class), [0; 0]);
}

#[test]
fn another_release_in_the_file_shows_that_the_store_is_none() {
    let text = format!(
        "{TAKE}void give(my_lock_t *lock) {{ __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }}\n\
        void add(Pool *p, Entry *e) {{ e->lock = 0; e->next = p->head; }}\n"
    );
    assert_eq!(releases("l.c", &text), [0; 0]);
}

#[test]
fn a_release_by_a_plain_store_is_found() {
    let gives = [
        "void give(my_lock_t *lock) { *lock = 0; }",
        "void Leave(Pool *p) { p->lock = 0; }",
        "void unlock(volatile int *lock) { __asm__ volatile(\"\" ::: \"memory\"); *lock = 0; }",
    ];
    for give in gives {
        assert_eq!(releases("l.c", &format!("{TAKE}{give}\n")), [2], "{give}");
    }
    // Under its own lock, whatever the function is called and whatever else the file does.
    let text = "void pool_init(Pool *p) {\n while (__sync_lock_test_and_set(&p->lock, 1)) ;\n p->n = 0;\n p->lock = 0;\n}\n\
        void give(Pool *p) { __sync_lock_release(&p->lock); }\n";
    assert_eq!(releases("l.c", text), [4]);
    let text = format!(
        "{TAKE}void add(Pool *p) {{ take(&p->lock); p->n++;\n p->lock = 0; }}\n\
        void give(Pool *p) {{ __sync_lock_release(&p->lock); }}\n"
    );
    assert_eq!(releases("l.c", &text), [3]);
}

#[test]
fn a_barrier_after_a_waiting_loop_orders_it() {
    let waits = |after: &str| {
        let text = format!(
            "extern int flag;\nvoid f(Shared *s) {{ while (!s->flag) {{ pg_usleep(1); }} {after} g(s->data); }}\n"
        );
        let found = of("w.c", &text).findings;
        found.iter().any(|finding| finding.rule == "busy-wait")
    };
    assert!(waits(""));
    assert!(waits("g(1);"));
    for barrier in [
        "pg_read_barrier();",
        "/* then */ __atomic_thread_fence(2);",
        "__sync_synchronize();",
    ] {
        assert!(!waits(barrier), "{barrier}");
    }
}

#[test]
fn a_choice_by_a_name_of_another_processor_does_not_hold() {
    let text = "#define V_SCALAR 0\n#define V_AVX2 1\n#define V_VSX 2\n#ifndef VECTOR\n#if defined(__AVX2__)\n#define VECTOR V_AVX2\n\
        #elif defined(__VSX__)\n#define VECTOR V_VSX\n#else\n#define VECTOR V_SCALAR\n#endif\n#endif\n\
        #if (VECTOR == V_AVX2) || defined(V_X86DISPATCH)\n__m256i f(void) { return _mm256_setzero_si256(); }\n#endif\n\
        #if VECTOR != V_AVX2\nint f(void) { __asm__(\"vmulouw %0, %1, %2\"); }\n#endif\n";
    let found = of("v.c", text).findings;
    let rules: Vec<(&str, Option<u32>)> = found.iter().map(|f| (f.rule, f.line)).collect();
    assert_eq!(
        rules,
        [("inline-assembly", Some(17)), ("no-vector-path", Some(14))],
        "{found:?}"
    );
}
