// A simulator of a GPU for tests: the threads of a block are fibers of one host thread; blocks run one after the other.
//
// Kernels are compiled with -fsanitize=thread, with which g++ inserts a call before every access to memory that another
// thread might use. This file defines the called functions. For every element of an array and of shared memory, they
// record the last write and the reads since, with thread, block and barrier. Two accesses, one of them a write, are a
// race unless they are of one thread, or of one block with a barrier in between, independently of the order in which the
// fibers run.
//
// Also reported: an access outside the arrays that a kernel was given, an index outside an array of its own (which
// -fsanitize=bounds checks), a read of shared memory that was never written, and a barrier or a shuffle that not all
// threads reach. The launch stops at the first report.
//
// Trade-offs: fibers on one thread are slow but deterministic, so that an error is reported at the same place every time.

#include <sys/mman.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "simulator.h"

namespace simulator {

typedef unsigned char byte;

struct Region {  // an array that the kernel was given, or a shared variable; filled in by Python
    byte *start;
    uint64_t bytes;
    uint32_t item;  // bytes of one number
    uint32_t is_shared;
};

struct Launch {  // filled in by Python
    dim3 grid, block;
    const Region *regions;
    uint64_t count;
};

}  // namespace simulator

extern "C" {
__attribute__((visibility("default"))) char report[512];
__attribute__((visibility("default"))) int reported_region;  // the number of the region, or -1
__attribute__((visibility("default"))) void *reported_place;  // in the kernel's code
}

namespace {

using simulator::byte;

struct Access {
    unsigned block = ~0u, phase = 0;
    int thread = -1;
    bool several = false;         // threads of this block, in this phase
    bool several_blocks = false;
};

struct Cell {
    Access write, read;
};

enum State { READY, AT_BARRIER, AT_SHUFFLE, DONE };

struct Fiber {
    void *stack_pointer;
    byte *stack;
    State state;
    const char *place;    // of the barrier or shuffle at which it waits
    unsigned mask;
    double value;         // argument of a shuffle, then its result
    int source;
};

const size_t STACK = 128 << 10;
const int WARP = 32;

const simulator::Launch *launched;
std::vector<std::vector<Cell>> cells;
std::vector<Fiber> fibers;
void *scheduler;
dim3 block;
unsigned block_number, phase;
int running = -1;  // the number of the thread, or none
void (*thread_function)(void *);
void *thread_data;
bool failed;

// Save the callee-saved registers on the current stack, and switch to another stack.
extern "C" void simulator_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.hidden simulator_switch
.globl simulator_switch
simulator_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");
const int SAVED = 6, RETURN = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.hidden simulator_switch
.globl simulator_switch
simulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
const int SAVED = 20, RETURN = 11;
#else
#error "the simulator switches between fibers on x86-64 and on 64-bit ARM only"
#endif

void pause() { simulator_switch(&fibers[running].stack_pointer, scheduler); }

void start() {
    thread_function(thread_data);
    fibers[running].state = DONE;
    pause();
}

void prepare(Fiber &fiber) {
    void **top = (void **)(fiber.stack + STACK) - 2;  // aligned to 16 bytes, as a call leaves it
    void **saved = top - SAVED;
    memset(saved, 0, (byte *)top - (byte *)saved);
    saved[RETURN] = (void *)start;
    fiber.stack_pointer = saved;
    fiber.state = READY;
}

void fail(int region, void *place, const char *format, ...) {
    if (failed) return;
    va_list values;
    va_start(values, format);
    vsnprintf(report, sizeof report, format, values);
    va_end(values);
    reported_region = region;
    reported_place = place;
    failed = true;
}

// ---- memory

bool in_order(const Access &earlier) {
    if (earlier.thread < 0) return true;
    return earlier.block == block_number && (earlier.phase != phase || (earlier.thread == running && !earlier.several));
}

// Whether a write may follow: the readers since the last barrier must be this thread alone, and of this block.
bool reads_in_order(const Access &read) {
    return !read.several_blocks && in_order(read);
}

void note_read(Access &read) {
    if (read.thread >= 0 && read.block != block_number) read.several_blocks = true;
    bool same = read.block == block_number && read.phase == phase && read.thread >= 0;
    read.several = same && (read.several || read.thread != running);
    read.block = block_number;
    read.phase = phase;
    read.thread = running;
}

void note_write(Access &write) {
    write.block = block_number;
    write.phase = phase;
    write.thread = running;
}

void stop_if_failed() {
    if (failed) pause();  // does not return
}

int find_region(const byte *address) {
    for (uint64_t i = 0; i < launched->count; i++) {
        const simulator::Region &region = launched->regions[i];
        if (address >= region.start && address < region.start + region.bytes) return (int)i;
    }
    return -1;
}

int nearest_region(const byte *address) {
    int nearest = -1;
    uint64_t least = ~0ull;
    for (uint64_t i = 0; i < launched->count; i++) {
        const simulator::Region &region = launched->regions[i];
        uint64_t distance = address < region.start ? region.start - address : address - (region.start + region.bytes);
        if (distance < least) least = distance, nearest = (int)i;
    }
    return nearest;
}

long long element(int region, const byte *address) {
    const simulator::Region &r = launched->regions[region];
    long long offset = address - r.start;
    return offset < 0 ? -((-offset + r.item - 1) / r.item) : offset / r.item;
}

void check(void *pointer, size_t size, bool is_write, void *place) {
    const byte *address = (const byte *)pointer;
    if (running < 0) return;
    const byte *stack = fibers[running].stack;
    if (address >= stack && address < stack + STACK) return;  // a local variable of the thread
    const char *verb = is_write ? "writes" : "reads";
    int number = find_region(address);
    if (number < 0 || find_region(address + size - 1) != number) {
        number = nearest_region(address);
        const simulator::Region &region = launched->regions[number];
        fail(number, place, "thread %d of block %u %s element %lld of %%s, which has %llu", running, block_number, verb,
             element(number, address), (unsigned long long)(region.bytes / region.item));
        stop_if_failed();
    }
    const simulator::Region &region = launched->regions[number];
    size_t first = (address - region.start) / region.item, last = (address + size - 1 - region.start) / region.item;
    for (size_t i = first; i <= last; i++) {
        Cell &cell = cells[number][i];
        if (region.is_shared && !is_write && (cell.write.thread < 0 || cell.write.block != block_number)) {
            fail(number, place, "thread %d of block %u reads element %zu of %%s, which no thread of the block has written",
                 running, block_number, i);
        } else if (region.is_shared && cell.write.block != block_number) {
            cell = Cell();  // written by an earlier block
        }
        if (!in_order(cell.write)) {
            fail(number, place,
                 "a race: thread %d of block %u %s element %zu of %%s, which thread %d of block %u has written, with no "
                 "barrier in between", running, block_number, verb, i, cell.write.thread, cell.write.block);
        }
        if (is_write && !reads_in_order(cell.read)) {
            fail(number, place,
                 "a race: thread %d of block %u writes element %zu of %%s, which thread %d of block %u has read, with no "
                 "barrier in between", running, block_number, i, cell.read.thread, cell.read.block);
        }
        stop_if_failed();
        if (is_write) note_write(cell.write);
        else note_read(cell.read);
    }
}

// ---- threads

bool differ(const char *one, const char *other) { return one && other && strcmp(one, other); }

void release_shuffles() {
    for (size_t warp = 0; warp < fibers.size(); warp += WARP) {
        Fiber *lanes = &fibers[warp];
        size_t width = fibers.size() - warp < (size_t)WARP ? fibers.size() - warp : WARP;
        const char *place = nullptr;
        for (size_t i = 0; i < width; i++) {
            if (lanes[i].state == AT_SHUFFLE) place = lanes[i].place;
        }
        if (!place) continue;
        if (width < (size_t)WARP)
            return fail(-1, nullptr, "%s: a shuffle of 32 threads in a warp of %zu", place, width);
        for (size_t i = 0; i < width; i++) {
            const Fiber &fiber = lanes[i];
            if (fiber.state != AT_SHUFFLE || differ(fiber.place, place))
                return fail(-1, nullptr, "%s: a shuffle that thread %zu of block %u does not take part in", place, warp + i,
                            block_number);
            if (fiber.mask != 0xffffffffu || fiber.source < 0 || fiber.source >= WARP)
                return fail(-1, nullptr, "%s: thread %zu of block %u shuffles with the mask %#x and lane %d: expected all "
                            "lanes, and one of them", place, warp + i, block_number, fiber.mask, fiber.source);
        }
        double given[WARP];
        for (int i = 0; i < WARP; i++) given[i] = lanes[i].value;
        for (int i = 0; i < WARP; i++) {
            lanes[i].value = given[lanes[i].source];
            lanes[i].state = READY;
        }
    }
}

void release_barrier() {
    const char *place = nullptr;
    size_t waiting = 0;
    for (const Fiber &fiber : fibers) {
        if (fiber.state != AT_BARRIER) continue;
        waiting++;
        if (differ(place, fiber.place))
            return fail(-1, nullptr, "the threads of block %u wait at different barriers, %s and %s", block_number, place,
                        fiber.place);
        place = fiber.place;
    }
    if (!waiting) return;
    if (waiting < fibers.size())
        return fail(-1, nullptr, "%s: a barrier that only %zu of the %zu threads of block %u reach", place, waiting,
                    fibers.size(), block_number);
    for (Fiber &fiber : fibers) fiber.state = READY;
    phase++;
}

bool run_ready() {
    bool any = false;
    for (size_t i = 0; i < fibers.size() && !failed; i++) {
        if (fibers[i].state != READY) continue;
        any = true;
        running = (int)i;
        simulator_switch(&scheduler, fibers[i].stack_pointer);
    }
    running = -1;
    return any;
}

void run_block() {
    for (Fiber &fiber : fibers) prepare(fiber);
    for (uint64_t i = 0; i < launched->count; i++)
        if (launched->regions[i].is_shared) memset(launched->regions[i].start, 0xff, launched->regions[i].bytes);
    phase++;
    while (!failed) {
        if (run_ready()) {
            if (!failed) release_shuffles();
            continue;
        }
        bool waiting = false;
        for (const Fiber &fiber : fibers) waiting = waiting || fiber.state != DONE;
        if (!waiting || failed) return;
        release_barrier();
    }
}

}  // namespace

namespace simulator {

dim3 thread_index() {
    unsigned n = running;
    const dim3 &shape = launched->block;
    return {n % shape.x, n / shape.x % shape.y, n / (shape.x * shape.y)};
}
dim3 block_index() { return block; }
dim3 block_shape() { return launched->block; }
dim3 grid_shape() { return launched->grid; }
int lane() { return running % WARP; }

void barrier(const char *place) {
    Fiber &fiber = fibers[running];
    fiber.state = AT_BARRIER;
    fiber.place = place;
    pause();
}

double shuffle(unsigned mask, double value, int source, const char *place) {
    Fiber &fiber = fibers[running];
    fiber.state = AT_SHUFFLE;
    fiber.place = place;
    fiber.mask = mask;
    fiber.value = value;
    fiber.source = source;
    pause();
    return fiber.value;
}

int compare_and_swap(int *place, int expected, int value) {
    if (find_region((const byte *)place) < 0) check(place, sizeof *place, true, __builtin_return_address(0));
    int found = *place;
    if (found == expected) *place = value;
    return found;
}

int run(const Launch &given, void (*thread)(void *), void *data) {
    launched = &given;
    thread_function = thread;
    thread_data = data;
    failed = false;
    size_t threads = (size_t)given.block.x * given.block.y * given.block.z;
    while (fibers.size() > threads) {
        munmap(fibers.back().stack, STACK);
        fibers.pop_back();
    }
    while (fibers.size() < threads) {
        Fiber fiber = {};
        fiber.stack = (byte *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fibers.push_back(fiber);
    }
    cells.assign(given.count, {});
    for (uint64_t i = 0; i < given.count; i++)
        cells[i].resize((given.regions[i].bytes + given.regions[i].item - 1) / given.regions[i].item);
    block_number = 0;
    phase = 0;
    for (block.z = 0; block.z < given.grid.z; block.z++)
        for (block.y = 0; block.y < given.grid.y; block.y++)
            for (block.x = 0; block.x < given.grid.x; block.x++) {
                run_block();
                if (failed) return 1;
                block_number++;
            }
    cells.clear();
    return 0;
}

}  // namespace simulator

// ---- the calls that g++ inserts before accesses to memory

#define PLACE __builtin_extract_return_addr(__builtin_return_address(0))
#define ACCESS(size)                                                                                        \
    void __tsan_read##size(void *p) { check(p, size, false, PLACE); }                                       \
    void __tsan_write##size(void *p) { check(p, size, true, PLACE); }                                       \
    void __tsan_unaligned_read##size(void *p) { check(p, size, false, PLACE); }                             \
    void __tsan_unaligned_write##size(void *p) { check(p, size, true, PLACE); }
extern "C" {
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
void __tsan_read_range(void *p, size_t size) { check(p, size, false, PLACE); }
void __tsan_write_range(void *p, size_t size) { check(p, size, true, PLACE); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
}

// ---- the call that g++ inserts for an index outside an array that the kernel declares

struct TypeDescriptor {  // as g++ lays it out, with the next
    uint16_t kind, info;
    char name[1];
};
struct OutOfBounds {
    const char *file;
    uint32_t line, column;
    const TypeDescriptor *array_type, *index_type;
};

extern "C" void __ubsan_handle_out_of_bounds(OutOfBounds *data, uintptr_t index) {
    if (running < 0) return;
    fail(-1, nullptr, "%s:%u: thread %d of block %u uses the index %lld of an array of type %s", data->file, data->line,
         running, block_number, (long long)index, data->array_type->name);
    stop_if_failed();
}
