;; Never returns from a batch.
(module
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (loop $again (br $again))))
