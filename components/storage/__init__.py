"""What outlives the cluster: buckets, image repositories, queues."""
