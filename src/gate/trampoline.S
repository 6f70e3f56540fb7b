#include "gate/gate.h"

/* A stub for every PASS of hooks.def, for the spares, for dlsym and dlvsym.
 *
 * A stub looks at the state in the page, counts, and jumps to the driver; the
 * caller's frame and registers are untouched, so that no prototype is needed.
 * When the lease is not active, or the driver's function is not known yet, it
 * calls gate_slow with all argument registers kept, and then jumps.
 */
#if defined __x86_64__

        .text

        .macro SAVE
        push    %rbp
        mov     %rsp, %rbp
        and     $-16, %rsp
        sub     $192, %rsp
        mov     %rdi, 0(%rsp)
        mov     %rsi, 8(%rsp)
        mov     %rdx, 16(%rsp)
        mov     %rcx, 24(%rsp)
        mov     %r8, 32(%rsp)
        mov     %r9, 40(%rsp)
        mov     %rax, 48(%rsp)
        mov     %r10, 56(%rsp)
        movaps  %xmm0, 64(%rsp)
        movaps  %xmm1, 80(%rsp)
        movaps  %xmm2, 96(%rsp)
        movaps  %xmm3, 112(%rsp)
        movaps  %xmm4, 128(%rsp)
        movaps  %xmm5, 144(%rsp)
        movaps  %xmm6, 160(%rsp)
        movaps  %xmm7, 176(%rsp)
        .endm

        .macro RESTORE
        mov     0(%rsp), %rdi
        mov     8(%rsp), %rsi
        mov     16(%rsp), %rdx
        mov     24(%rsp), %rcx
        mov     32(%rsp), %r8
        mov     40(%rsp), %r9
        mov     48(%rsp), %rax
        mov     56(%rsp), %r10
        movaps  64(%rsp), %xmm0
        movaps  80(%rsp), %xmm1
        movaps  96(%rsp), %xmm2
        movaps  112(%rsp), %xmm3
        movaps  128(%rsp), %xmm4
        movaps  144(%rsp), %xmm5
        movaps  160(%rsp), %xmm6
        movaps  176(%rsp), %xmm7
        leave
        .endm

        /* %r11 is the number. */
        .type   slow, @function
slow:
        SAVE
        mov     %r11d, %edi
        call    gate_slow
        mov     %rax, %r11
        RESTORE
        jmp     *%r11
        .size   slow, . - slow

        .type   slow_free, @function
slow_free:
        SAVE
        mov     %r11d, %edi
        call    gate_real_of
        mov     %rax, %r11
        RESTORE
        jmp     *%r11
        .size   slow_free, . - slow_free

        .set    id, 0

        .macro BODY kind
        mov     gate_page(%rip), %r10
        mov     (gate_real + 8 * id)(%rip), %r11
        cmpl    $0, GATE_AT_STATE(%r10)
        jne     1f
        test    %r11, %r11
        jz      1f
        lock incq (GATE_AT_COUNT + 8 * \kind)(%r10)
        jmp     *%r11
1:      mov     $id, %r11d
        jmp     slow
        .set    id, id + 1
        .endm

        .macro STUB name, kind
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        BODY    \kind
        .size   \name, . - \name
        .endm

        .macro STUB_FREE name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        mov     (gate_real + 8 * id)(%rip), %r11
        test    %r11, %r11
        jz      1f
        jmp     *%r11
1:      mov     $id, %r11d
        jmp     slow_free
        .size   \name, . - \name
        .set    id, id + 1
        .endm

#define PASS_OTHER(name) STUB name, GATE_OTHER
#define PASS_LAUNCH(name) STUB name, GATE_LAUNCH
#define PASS_COPY(name) STUB name, GATE_COPY
#define PASS_SYNC(name) STUB name, GATE_SYNC
#define PASS_FREE(name) STUB_FREE name
#define PASS(name, kind) PASS_##kind(name)
#define HOOK(name, params) .set id, id + 1
#include "gate/hooks.def"
#undef PASS
#undef HOOK

        /* %r11 is the number of one that is known. */
        .type   spare, @function
        .p2align 4
spare:
        mov     gate_page(%rip), %r10
        cmpl    $0, GATE_AT_STATE(%r10)
        jne     slow
        lock incq (GATE_AT_COUNT + 8 * GATE_OTHER)(%r10)
        lea     gate_real(%rip), %r10
        jmp     *(%r10, %r11, 8)
        .size   spare, . - spare

        /* The spares stand one after the other. */
        .globl  gate_spares
        .hidden gate_spares
        .type   gate_spares, @function
        .p2align 4
gate_spares:
        .rept   GATE_SPARES
        .p2align GATE_SPARE_SHIFT
        mov     $id, %r11d
        jmp     spare
        .set    id, id + 1
        .endr
        .size   gate_spares, . - gate_spares

        /* What is not ours is a jump to the real one, so that it sees its
         * caller: RTLD_NEXT means "after who asks".
         */
        .macro LOOK name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        SAVE
        mov     8(%rbp), %rcx           /* who asks */
        call    gate_\name
        test    %rax, %rax
        jz      2f
        inc     %rax                    /* NOWHERE is -1: answer NULL */
        jz      1f
        dec     %rax
1:      leave
        ret
2:      RESTORE
        mov     gate_\name\()_real(%rip), %r11
        jmp     *%r11
        .size   \name, . - \name
        .endm

        LOOK    dlsym
        LOOK    dlvsym

        /* What each name is here. */
        .section .data.rel.ro, "aw", @progbits
        .globl  gate_ours
        .hidden gate_ours
        .type   gate_ours, @object
        .p2align 3
gate_ours:
#define PASS(name, kind) .quad name
#define HOOK(name, params) .quad name
#include "gate/hooks.def"
        .size   gate_ours, . - gate_ours

#else
#error "no trampolines for this machine yet"
#endif

        .section .note.GNU-stack, "", @progbits
