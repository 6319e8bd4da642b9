;; Takes about a second to start, and faults at its first packet.
(module
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (local $left i64)
    (local.set $left (i64.const 1000000000))
    (loop $again
      (local.set $left (i64.sub (local.get $left) (i64.const 1)))
      (br_if $again (i64.ne (local.get $left) (i64.const 0))))
    (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (unreachable)))
