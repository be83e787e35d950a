"""What every process of a group checks, on whatever transport: each check is called on every rank with a fresh group."""
import contextlib
import copy
import datetime
import functools
import itertools
import operator
import os
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceCoalescedOptions
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import tutti_torch

try:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None  # of later versions than this

SMALL, LARGE = 100, 700_001  # elements: within one exchange of shared memory, and through several stages of it


class Group:
    """A process group and this process's place in it."""

    def __init__(self, handle, on_hosts=False):
        self.handle = handle
        self.on_hosts = on_hosts  # two of them, with two ranks each
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.ranks = range(self.world)


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


def expect_equal(actual, expected, *what):
    expect(actual.dtype == expected.dtype and actual.shape == expected.shape and torch.equal(actual, expected),
           *what, "is", actual, "and should be", expected)


def shares_memory():
    """Whether a group of this process is in shared memory: that shows in its mappings, connections do not."""
    with open("/proc/self/maps") as maps:
        return "tutti-segment" in maps.read()


@contextlib.contextmanager
def raises(*words):
    try:
        yield
    except Exception as e:  # noqa: BLE001  (whatever it is, its text counts)
        expect(all(word in str(e) for word in words), "the error says", repr(str(e)), "without", words)
    else:
        raise AssertionError(f"nothing was raised that says {words}")


def values(rank, count, dtype, seed=0):
    """Small numbers that differ by rank and place, so that sums are exact in every type."""
    numbers = (torch.arange(count) * 7 + 3 * rank + seed) % 5 + 1
    if dtype == torch.bool:
        return numbers > 3
    if dtype.is_complex:
        return torch.complex(numbers.double(), -numbers.double()).to(dtype)
    return numbers.to(dtype)


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REALS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
OPERATIONS = {dist.ReduceOp.SUM: operator.add, dist.ReduceOp.PRODUCT: operator.mul,
              dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
BITWISE = {dist.ReduceOp.BAND: operator.and_, dist.ReduceOp.BOR: operator.or_, dist.ReduceOp.BXOR: operator.xor}


def all_reduce_of_every_type_and_operation(g):
    for dtype in INTEGERS + REALS:
        operations = {**OPERATIONS, **(BITWISE if dtype in INTEGERS else {})}
        for op, count in itertools.product(operations, [0, 1, SMALL]):
            tensor = values(g.rank, count, dtype)
            dist.all_reduce(tensor, op, group=g.handle)
            expected = functools.reduce(operations[op], [values(r, count, dtype) for r in g.ranks])
            expect_equal(tensor, expected, op, dtype)


def all_reduce_of_truth_values_and_complex_numbers(g):
    tensor = values(g.rank, SMALL, torch.bool)
    dist.all_reduce(tensor, dist.ReduceOp.SUM, group=g.handle)
    expect_equal(tensor, functools.reduce(operator.or_, [values(r, SMALL, torch.bool) for r in g.ranks]))
    for dtype in COMPLEX:
        tensor = values(g.rank, SMALL, dtype)
        dist.all_reduce(tensor, group=g.handle)
        expect_equal(tensor, sum(values(r, SMALL, dtype) for r in g.ranks))


def all_reduce_of_large_tensors(g):
    for dtype in [torch.float32, torch.int64, torch.bfloat16, torch.uint8]:
        tensor = values(g.rank, LARGE, dtype)
        dist.all_reduce(tensor, group=g.handle)
        expect_equal(tensor, sum(values(r, LARGE, dtype) for r in g.ranks), dtype)


def all_reduce_averages(g):
    for count in [SMALL, LARGE]:
        tensor = values(g.rank, count, torch.float64)
        dist.all_reduce(tensor, dist.ReduceOp.AVG, group=g.handle)
        expect_equal(tensor, sum(values(r, count, torch.float64) for r in g.ranks) / g.world)


def all_reduce_of_a_strided_tensor(g):
    whole = torch.zeros(20, 30)
    part = whole.t()[::2]
    part.copy_(values(g.rank, part.numel(), torch.float32).view(part.shape))
    dist.all_reduce(part, group=g.handle)
    expect_equal(part, sum(values(r, part.numel(), torch.float32) for r in g.ranks).view(part.shape))
    expect(whole.t()[1::2].eq(0).all(), "what lies between was written")


def all_reduce_of_several_tensors_at_once(g):
    shapes = [(3, 4), (0,), (1,), (5, 2, 2)]
    tensors = [values(g.rank, torch.Size(s).numel(), torch.float32, i).view(s) for i, s in enumerate(shapes)]
    g.handle.allreduce_coalesced(tensors, AllreduceCoalescedOptions()).wait()
    for i, (tensor, shape) in enumerate(zip(tensors, shapes)):
        expect_equal(tensor, sum(values(r, tensor.numel(), torch.float32, i) for r in g.ranks).view(shape))


def all_reduce_of_sparse_tensors(g):
    def part(rank):
        return torch.sparse_coo_tensor([[0, rank + 1], [1, rank]], [1.0, rank + 2.0], (g.world + 2, g.world + 2))

    tensor = part(g.rank)
    dist.all_reduce(tensor, group=g.handle)
    expect_equal(tensor.to_dense(), sum(part(r).to_dense() for r in g.ranks))


def broadcast_from_every_rank(g):
    for root, count, dtype in itertools.product(g.ranks, [0, 1, SMALL, LARGE], [torch.uint8, torch.float32, torch.bool]):
        tensor = values(g.rank, count, dtype)
        dist.broadcast(tensor, root, group=g.handle)
        expect_equal(tensor, values(root, count, dtype), "from", root)


def reduce_to_every_rank_leaves_the_others_alone(g):
    for root, count in itertools.product(g.ranks, [SMALL, LARGE]):
        tensor = values(g.rank, count, torch.float32)
        dist.reduce(tensor, root, group=g.handle)
        whole = sum(values(r, count, torch.float32) for r in g.ranks)
        expect_equal(tensor, whole if g.rank == root else values(g.rank, count, torch.float32), "to", root)


def all_gather_into_lists_and_tensors(g):
    for count, dtype in itertools.product([0, 1, SMALL, LARGE], [torch.uint8, torch.float64]):
        mine = values(g.rank, count, dtype)
        expected = [values(r, count, dtype) for r in g.ranks]
        outputs = [torch.zeros(count, dtype=dtype) for _ in g.ranks]
        dist.all_gather(outputs, mine, group=g.handle)
        for output, part in zip(outputs, expected):
            expect_equal(output, part)
        whole = torch.zeros(g.world * count, dtype=dtype)
        dist.all_gather_into_tensor(whole, mine, group=g.handle)
        expect_equal(whole, torch.cat(expected))


def all_gather_into_strided_tensors(g):
    outputs = [torch.zeros(4, 6).t() for _ in g.ranks]
    dist.all_gather(outputs, values(g.rank, 24, torch.float32).view(4, 6).t(), group=g.handle)
    for r, output in enumerate(outputs):
        expect_equal(output, values(r, 24, torch.float32).view(4, 6).t())


def gather_and_scatter_at_every_rank(g):
    for root, count in itertools.product(g.ranks, [1, SMALL, LARGE]):
        outputs = [torch.zeros(count) for _ in g.ranks] if g.rank == root else None
        dist.gather(values(g.rank, count, torch.float32), outputs, root, group=g.handle)
        for r, output in enumerate(outputs or []):
            expect_equal(output, values(r, count, torch.float32))
        inputs = [values(r, count, torch.float32, root) for r in g.ranks] if g.rank == root else None
        output = torch.zeros(count)
        dist.scatter(output, inputs, root, group=g.handle)
        expect_equal(output, values(g.rank, count, torch.float32, root))


def reduce_scatter_of_lists_and_tensors(g):
    for count, dtype in itertools.product([1, SMALL, LARGE], [torch.int16, torch.float32]):
        def inputs_of(rank):
            return [values(rank, count, dtype, part) for part in g.ranks]

        expected = sum(inputs_of(r)[g.rank] for r in g.ranks)
        inputs, output = inputs_of(g.rank), torch.zeros(count, dtype=dtype)
        dist.reduce_scatter(output, inputs, group=g.handle)
        expect_equal(output, expected)
        for part, before in zip(inputs, inputs_of(g.rank)):
            expect_equal(part, before, "an input")
        whole, output = torch.cat(inputs), torch.zeros(count, dtype=dtype)
        dist.reduce_scatter_tensor(output, whole, group=g.handle)
        expect_equal(output, expected)


def all_to_all_of_lists_and_uneven_splits(g):
    def part(sender, receiver):
        return values(sender, 10 * sender + 3 * receiver, torch.int32, receiver)

    outputs = [torch.zeros_like(part(r, g.rank)) for r in g.ranks]
    dist.all_to_all(outputs, [part(g.rank, r) for r in g.ranks], group=g.handle)
    for r, output in enumerate(outputs):
        expect_equal(output, part(r, g.rank), "from", r)
    whole = torch.zeros(sum(map(len, outputs)), dtype=torch.int32)
    sent = [part(g.rank, r) for r in g.ranks]
    dist.all_to_all_single(whole, torch.cat(sent), [len(o) for o in outputs], [len(s) for s in sent], group=g.handle)
    expect_equal(whole, torch.cat(outputs))


def all_to_all_into_a_strided_tensor(g):
    """Rows go to ranks in equal shares; the output is not contiguous, and no split sizes are given."""
    def sent(rank):
        return values(rank, 2 * g.world * 3, torch.float32).view(2 * g.world, 3)

    output = torch.zeros(3, 2 * g.world).t()
    dist.all_to_all_single(output, sent(g.rank), group=g.handle)
    expect_equal(output, torch.cat([sent(r)[2 * g.rank:2 * g.rank + 2] for r in g.ranks]))
    with raises("equal parts"):
        dist.all_to_all_single(torch.zeros(g.world + 1), torch.zeros(g.world + 1), group=g.handle)


def messages_are_matched_by_tag(g):
    """The receiver asks in another order than they were sent, for small ones and for large ones."""
    counts = {1: 10, 2: LARGE, 3: 0, 4: 5000}
    if g.rank == 0:
        works = [dist.isend(values(tag, n, torch.float32), 1, group=g.handle, tag=tag) for tag, n in counts.items()]
        for work in works:
            work.wait()
    elif g.rank == 1:
        for tag in reversed(list(counts)):
            tensor = torch.zeros(counts[tag])
            dist.recv(tensor, 0, group=g.handle, tag=tag)
            expect_equal(tensor, values(tag, counts[tag], torch.float32), "tag", tag)


def messages_of_one_tag_stay_in_order(g):
    if g.rank == 0:
        for work in [dist.isend(values(k, 10 * 5 ** (k % 5), torch.int64), 1, group=g.handle) for k in range(25)]:
            work.wait()
    elif g.rank == 1:
        for k in range(25):
            tensor = torch.zeros(10 * 5 ** (k % 5), dtype=torch.int64)
            dist.recv(tensor, 0, group=g.handle)
            expect_equal(tensor, values(k, tensor.numel(), torch.int64), "message", k)


def messages_are_received_from_anybody(g):
    if g.rank == 0:
        senders = set()
        for _ in range(1, g.world):
            tensor = torch.zeros(SMALL)
            sender = dist.recv(tensor, group=g.handle)
            expect_equal(tensor, values(sender, SMALL, torch.float32))
            senders.add(sender)
        expect(senders == set(range(1, g.world)), "senders", senders)
    else:
        dist.send(values(g.rank, SMALL, torch.float32), 0, group=g.handle)


def messages_of_another_length_are_errors_at_both_ends(g):
    if g.rank == 0:
        with raises("bytes"):
            dist.isend(torch.zeros(LARGE), 1, group=g.handle).wait()
    elif g.rank == 1:
        with raises(str(4 * LARGE), "28"):
            dist.recv(torch.zeros(7), 0, group=g.handle)


def messages_pass_collectives(g):
    """A collective that rank 1 joins only after it has a message does not hold the message up."""
    for count in [SMALL, LARGE]:
        tensor = values(g.rank, count, torch.float32)
        if g.rank == 1:
            dist.recv(torch.zeros(count), 0, group=g.handle)
        work = dist.all_reduce(tensor, group=g.handle, async_op=True)
        if g.rank == 0:
            dist.send(torch.zeros(count), 1, group=g.handle)
        work.wait()
        expect_equal(tensor, sum(values(r, count, torch.float32) for r in g.ranks))


def works_go_on_while_nobody_waits_for_them(g):
    """Rank 0 waits for its all-reduce only after the others have told that theirs is through."""
    for count in [SMALL, LARGE]:
        tensor = values(g.rank, count, torch.float32)
        work = dist.all_reduce(tensor, group=g.handle, async_op=True)
        if g.rank == 0:
            for _ in range(1, g.world):
                dist.recv(torch.zeros(1), group=g.handle)
            work.wait()
        else:
            work.wait()
            dist.send(torch.zeros(1), 0, group=g.handle)
        expect_equal(tensor, sum(values(r, count, torch.float32) for r in g.ranks))


def works_are_done_in_order(g):
    for count in [SMALL, LARGE]:
        tensor = torch.ones(count)
        works = [dist.all_reduce(tensor, group=g.handle, async_op=True) for _ in range(5)]
        works[-1].wait()
        expect_equal(tensor, torch.full((count,), float(g.world ** 5)))
        for work in works:
            expect(work.is_completed(), "a work before the last is not complete")


def works_show_when_they_are_complete(g):
    for count in [SMALL, LARGE]:
        work = dist.all_reduce(torch.ones(count), group=g.handle, async_op=True)
        until = time.monotonic() + 20
        while not work.is_completed():
            expect(time.monotonic() < until, "not complete after 20 s")
        work.wait()


def futures_carry_the_result(g):
    for count in [SMALL, LARGE]:
        tensor = values(g.rank, count, torch.float32)
        future = dist.all_reduce(tensor, group=g.handle, async_op=True).get_future()
        half = future.then(lambda f: f.value()[0] / 2).wait()
        expect_equal(half, sum(values(r, count, torch.float32) for r in g.ranks) / 2)


def a_wait_with_a_limit_ends(g):
    work = None
    if g.rank == 0:
        work = dist.all_reduce(torch.ones(LARGE), group=g.handle, async_op=True)
        with raises("Timed out", "50ms"):
            work.wait(datetime.timedelta(milliseconds=50))
        dist.send(torch.zeros(1), 1, group=g.handle)
    elif g.rank == 1:
        dist.recv(torch.zeros(1), 0, group=g.handle)
    if g.rank != 0:
        work = dist.all_reduce(torch.ones(LARGE), group=g.handle, async_op=True)
    work.wait()


def barriers_wait_for_everybody(g):
    for late in g.ranks:
        if g.rank == late:
            time.sleep(0.1)
        came = time.monotonic()
        dist.barrier(group=g.handle)
        left = time.monotonic()
        times = [None] * g.world
        dist.all_gather_object(times, (came, left), group=g.handle)
        expect(min(left for _, left in times) >= max(came for came, _ in times), "one left before all came:", times)


def barriers_meet_where_one_is_queued_and_another_is_not(g):
    for _ in range(20):
        work = dist.all_reduce(torch.ones(LARGE), group=g.handle, async_op=True)
        if g.rank != 0:
            work.wait()
        dist.barrier(group=g.handle)
        work.wait()


def monitored_barriers_name_who_is_missing(g):
    group = g.handle
    group.monitored_barrier(datetime.timedelta(seconds=20))
    last = g.world - 1
    if g.rank == 0:
        with raises(f"Rank {last} failed to pass monitoredBarrier"):
            group.monitored_barrier(datetime.timedelta(milliseconds=500))
    elif g.rank != last:
        with raises("successfully reached monitoredBarrier"):
            group.monitored_barrier(datetime.timedelta(milliseconds=500))


def verdicts_of_monitored_barriers_outlive_the_group(g):
    """Rank 0 destroys the group at once; the others still learn that all have come."""
    for _ in range(20):
        group = dist.new_group(timeout=datetime.timedelta(seconds=20))
        group.monitored_barrier(datetime.timedelta(seconds=20))
        if g.rank == 0:
            dist.destroy_process_group(group)


def a_group_that_has_failed_names_the_first_failure(g):
    for first, second in itertools.product([SMALL, LARGE], [SMALL, LARGE]):
        group = dist.new_group(timeout=datetime.timedelta(milliseconds=300))
        if g.rank == 0:
            with raises("Timed out"):
                dist.all_reduce(torch.ones(first), group=group)
            with raises("has failed", "all-reduce", "Timed out"):
                dist.all_reduce(torch.ones(second), group=group)
            with raises("has failed", "all-reduce", "Timed out"):
                dist.all_reduce(torch.ones(second), group=group, async_op=True).wait()
        dist.barrier(group=g.handle)


def ranks_that_differ_are_found(g):
    """By who finds it at once; where that is one of several, the others wait for him in vain."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    # Those of a host find it in their shared memory.
    with raises(f"ranks differ: rank {g.rank} has" if g.on_hosts else f"rank {g.rank}: rank "):
        dist.all_reduce(torch.ones(10 + g.rank), group=group)


def unknown_kinds_are_refused(g):
    with raises("bitwise and"):
        dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND, group=g.handle)


def objects_travel(g):
    found = [None] * g.world
    dist.all_gather_object(found, {"rank": g.rank, "text": "x" * g.rank}, group=g.handle)
    expect(found == [{"rank": r, "text": "x" * r} for r in g.ranks], found)
    things = [{"from": g.rank}, "y" * 100_000 * g.rank]
    dist.broadcast_object_list(things, 1, group=g.handle)
    expect(things == [{"from": 1}, "y" * 100_000], "objects of rank 1")


def groups_work_beside_each_other(g):
    pair = dist.new_group([0, 1])
    for k in range(10):
        ours, both = torch.ones(SMALL), torch.ones(LARGE)
        work = dist.all_reduce(both, group=g.handle, async_op=True)
        if g.rank < 2:
            dist.all_reduce(ours, group=pair)
            expect_equal(ours, torch.full((SMALL,), 2.0))
        work.wait()
        expect_equal(both, torch.full((LARGE,), float(g.world)))


def callbacks_may_exchange(g):
    """Of several works that are under way, also while the caller goes on to the next, and of a callback's own. On rank
    0 each work is through before it has its callback, which then runs on the caller's thread."""
    def add_up_again(future):
        total = future.value()[0]
        nested = total.clone()
        inner = dist.all_reduce(nested, group=g.handle, async_op=True).get_future()
        thrice = inner.then(lambda done: sum_of(done.value()[0]))
        return total, inner.wait()[0], thrice.wait()

    def sum_of(tensor):
        dist.all_reduce(tensor, group=g.handle)
        return tensor.clone()

    for count in [SMALL, LARGE]:
        futures = []
        for k in range(6):
            work = dist.all_reduce(values(g.rank, count, torch.float64, k), group=g.handle, async_op=True)
            if g.rank == 0:
                work.wait()
            futures.append(work.get_future().then(add_up_again))
        for k, future in enumerate(futures):
            once = sum(values(r, count, torch.float64, k) for r in g.ranks)
            total, _, thrice = future.wait()
            expect_equal(total, once, "once")
            expect_equal(thrice, once * g.world ** 2, "three times")


def own_group(g, name):
    """One that nobody but the caller holds."""
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    return tutti_torch._C.create(store, g.rank, g.world, datetime.timedelta(seconds=20))


def all_reduce_with(g, group, callback):
    """Its future. The last rank, which has no callback, joins when the others have theirs: they run on the group's
    thread, not on the caller's."""
    last = g.world - 1
    if g.rank == last:
        for r in range(last):
            dist.recv(torch.zeros(1), r, group=g.handle)
    future = group.allreduce([values(g.rank, LARGE, torch.float32)]).get_future()
    if g.rank != last:
        caller = threading.get_ident()

        def on_another_thread(done):
            expect(threading.get_ident() != caller, "the callback runs on the caller's thread")
            return callback(done)

        future = future.then(on_another_thread)
        dist.send(torch.zeros(1), last, group=g.handle)
    return future


def callbacks_may_wait_for_later_works(g):
    """For handles, and for futures that they ask for, also where somebody has asked before. To poll does nothing."""
    later, submitted = [], threading.Event()

    def wait_for_the_later(_):
        expect(submitted.wait(20), "nothing was submitted beside a callback")
        expect(not any(work.is_completed() for work in later), "a callback that polled has exchanged")
        later[0].wait()
        for work in later[1:]:
            work.get_future().wait()

    future = all_reduce_with(g, g.handle, wait_for_the_later)
    tensors = [values(g.rank, SMALL, torch.float32, k) for k in range(4)]
    later += [dist.all_reduce(tensor, group=g.handle, async_op=True) for tensor in tensors]
    for work in later[:3]:
        work.get_future()
    submitted.set()
    future.wait()
    for k, (work, tensor) in enumerate(zip(later, tensors)):
        work.wait()
        expect_equal(tensor, sum(values(r, SMALL, torch.float32, k) for r in g.ranks))


def callbacks_may_differentiate(g):
    def slope(_):
        x = torch.full((3,), 2.0, requires_grad=True)
        x.square().sum().backward()
        return x.grad

    gradient = all_reduce_with(g, g.handle, slope).wait()
    if g.rank != g.world - 1:
        expect_equal(gradient, torch.full((3,), 4.0))


def groups_may_be_let_go_while_a_callback_runs(g):
    """Which wants the interpreter's lock, and whoever lets go of the group has it."""
    running, letting_go, ended = threading.Event(), threading.Event(), threading.Event()

    def run(_):
        running.set()
        expect(letting_go.wait(20), "nobody let go of the group")
        ended.set()

    group = own_group(g, "let go while a callback runs")
    future = all_reduce_with(g, group, run)
    if g.rank == g.world - 1:
        future.wait()
    else:
        expect(running.wait(20), "the callback did not begin")
    dist.barrier(group=g.handle)
    letting_go.set()
    del group
    expect(ended.is_set() or g.rank == g.world - 1, "the callback had not ended when the group was gone")


def letting_go_of_a_group_ends_what_a_callback_waits_for(g):
    """A queued work that the last rank never joins, and a message that it never sends."""
    last = g.world - 1
    for what in ["work", "message"]:
        group = own_group(g, "let go while a callback waits for a " + what)
        later, submitted, errors = [], threading.Event(), []

        def wait_for_the_later(_):
            try:
                expect(submitted.wait(20), "nothing was submitted beside a callback")
                later[0].wait()
            except Exception as e:  # noqa: BLE001
                errors.append(str(e))

        future = all_reduce_with(g, group, wait_for_the_later)
        if g.rank == last:
            future.wait()
        elif what == "work":
            later.append(group.allreduce([torch.ones(SMALL)]))
        else:
            later.append(group.recv([torch.zeros(SMALL)], last, 0))
        submitted.set()
        dist.barrier(group=g.handle)
        if g.rank != last:
            del group
            expect(len(errors) == 1 and "Timed out" not in errors[0], "the callback's wait ended with", errors)
        dist.barrier(group=g.handle)


def callbacks_may_close_their_group(g):
    """Or let go of it: nobody else holds it then but its own thread."""
    last = g.world - 1
    for how in ["abort", "let go"]:
        held, attached = [own_group(g, how + " in a callback")], threading.Event()
        if how == "abort" and not hasattr(held[0], "abort"):
            continue  # torch 1.13 has none

        def close(_):
            expect(attached.wait(20), "the caller still holds the group")
            if how == "abort":
                held[0].abort()
            else:
                held.clear()

        future = all_reduce_with(g, held[0], close)
        attached.set()
        if g.rank != last:
            future.wait()
        if g.rank != last and how == "abort":
            with raises("the process group was destroyed"):
                held[0].allreduce([torch.ones(SMALL)]).wait()
        dist.barrier(group=g.handle)


def nobody_alone_receives_from_anybody(g):
    group = tutti_torch._C.create(dist.HashStore(), 0, 1, datetime.timedelta(seconds=20))
    with raises("nobody else"):
        group.recv_anysource([torch.zeros(1)], 0)


def ddp_compresses_with_a_hook_that_exchanges_in_callbacks(g):
    """PyTorch's own PowerSGD. A gradient of as many samples as there are ranks has no higher rank: it is exact."""
    torch.manual_seed(1)
    single = torch.nn.Sequential(*[torch.nn.Linear(200, 200) for _ in range(4)]).double()
    shared = DistributedDataParallel(copy.deepcopy(single), process_group=g.handle, bucket_cap_mb=0.2)
    state = powerSGD_hook.PowerSGDState(g.handle, matrix_approximation_rank=g.world, start_powerSGD_iter=2)
    shared.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (single, shared)]
    x = torch.randn(g.world, 200).double()
    for _ in range(6):
        for model, optimizer, part in zip((single, shared), optimizers, (slice(None), slice(g.rank, g.rank + 1))):
            optimizer.zero_grad()
            model(x[part]).square().mean().backward()
            optimizer.step()
    for a, b in zip(single.parameters(), shared.parameters()):
        expect(torch.allclose(a, b, rtol=1e-6, atol=1e-9), "differs from one process by", (a - b).abs().max())


def ddp_trains_as_one_process_would(g):
    """Averaged gradients of equal shares are the gradient of the whole batch."""
    torch.manual_seed(1)
    make = lambda: torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3)).double()
    single = make()
    shared = make()
    shared.load_state_dict(single.state_dict())
    shared = DistributedDataParallel(shared, process_group=g.handle)
    inputs, targets = torch.randn(5, 6 * g.world, 20).double(), torch.randn(5, 6 * g.world, 3).double()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (single, shared)]
    for x, y in zip(inputs, targets):
        mine = slice(6 * g.rank, 6 * g.rank + 6)
        for model, optimizer, part in zip((single, shared), optimizers, (slice(None), mine)):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
            optimizer.step()
    for a, b in zip(single.parameters(), shared.parameters()):
        expect(torch.allclose(a, b, rtol=1e-12, atol=1e-12), "the replica differs from one process by",
               (a - b).abs().max())
        first = b.detach().clone()
        dist.broadcast(first, 0, group=g.handle)
        expect_equal(b.detach(), first, "replica")


if fully_shard is not None:
    def fsdp_trains_as_one_process_would(g):
        torch.manual_seed(1)
        single = torch.nn.Sequential(torch.nn.Linear(20, 301), torch.nn.Tanh(), torch.nn.Linear(301, 3)).double()
        shared = copy.deepcopy(single)
        mesh = DeviceMesh.from_group(g.handle, "cpu")
        for module in (shared[0], shared[2], shared):
            fully_shard(module, mesh=mesh)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (single, shared)]
        for _ in range(4):
            x, y = torch.randn(6 * g.world, 20).double(), torch.randn(6 * g.world, 3).double()
            mine = slice(6 * g.rank, 6 * g.rank + 6)
            for model, optimizer, part in zip((single, shared), optimizers, (slice(None), mine)):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
                optimizer.step()
        for a, b in zip(single.parameters(), shared.parameters()):
            expect(torch.allclose(a, b.full_tensor(), rtol=1e-12, atol=1e-12), "the shards differ from one process")


def the_transport_is_the_one_that_was_asked_for(g):
    shares = shares_memory()
    expect(shares == (os.environ.get("TUTTI_TRANSPORT") != "tcp"), "shared memory:", shares)


CHECKS = [value for value in list(vars().values())
          if callable(value) and getattr(value, "__code__", None) is not None
          and value.__code__.co_varnames[:value.__code__.co_argcount] == ("g",)]
